// The contrast of every visible text with what is behind it, as WCAG 2 defines it. Returns what falls short.
(() => {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = colour;
    pixel.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
    return { r, g, b, a: a / 255 };
  };
  const over = (top, below) => ({
    r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a), b: top.b * top.a + below.b * (1 - top.a), a: 1,
  });
  const light = ({ r, g, b }) => {
    const part = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const layer = read(getComputedStyle(one).backgroundColor);
      // A gradient that ends in the element's own flat colour, as on a job's block, counts as that colour.
      const own = getComputedStyle(one).getPropertyValue("--c").trim();
      if (one.matches(".jb") && own) { const probe = document.createElement("i"); probe.style.color = "var(--c)"; one.append(probe); layers.push(read(getComputedStyle(probe).color)); probe.remove(); break; }
      layers.push(layer);
      if (layer.a === 1) break;
    }
    return layers.reduceRight((below, top) => over(top, below), read(getComputedStyle(document.body).backgroundColor));
  };
  const short = [];
  let seen = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim();
    const element = walk.currentNode.parentElement;
    if (!text || element.closest("script, style, [hidden]")) continue;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || box.right < 0) continue;
    if (!element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ground = behind(element);
    const found = ratio(over(read(style.color), ground), ground);
    seen += 1;
    if (found < (large ? 3 : 4.5)) short.push(`${text.slice(0, 40)} (${element.className || element.tagName}): ${found.toFixed(2)}`);
  }
  return { seen, short: [...new Set(short)] };
})()
