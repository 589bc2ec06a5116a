// Keeps a page live. One stream tells that something happened; the page's own address gives the new parts, as the server drew them.
const body = document.body;
const live = document.getElementById("live");
let seq = Number(body.dataset.seq);
let stream = null;
let wanted = 0;
let timer = 0;
let failures = 0;

const say = (word, state) => {
  if (!live) return;
  live.classList.remove("on", "off");
  if (state) live.classList.add(state);
  document.getElementById("live-word").textContent = word;
};

// Light and dark

const box = document.getElementById("theme");
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const shown = () => root.dataset.theme ?? (dark.matches ? "dark" : "light");
if (box) {
  box.checked = shown() === "dark";
  if (!root.dataset.theme) root.dataset.theme = shown(); // from here on the attribute decides, not the box
  box.addEventListener("change", () => {
    root.dataset.theme = box.checked ? "dark" : "light";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* not kept, then */ }
  });
}

// New parts

for (const log of document.querySelectorAll("#log .term, #jobs .term")) log.scrollTop = log.scrollHeight;

const openDetails = (part) => [...part.querySelectorAll("details")].map((one) => one.open);

const swap = (old, fresh) => {
  if (old.innerHTML === fresh.innerHTML) return;
  if (old.contains(document.activeElement) && document.activeElement.matches("input, textarea")) return;
  const focus = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const open = openDetails(old);
  const scrolled = [...old.querySelectorAll(".term")].map((one) => one.scrollTop + one.clientHeight >= one.scrollHeight - 4);
  old.replaceWith(fresh);
  fresh.querySelectorAll("details").forEach((one, n) => { one.open = open[n] ?? one.open; });
  fresh.querySelectorAll(".term").forEach((one, n) => { if (scrolled[n]) one.scrollTop = one.scrollHeight; });
  if (focus) [...fresh.querySelectorAll("a")].find((one) => one.getAttribute("href") === focus)?.focus({ preventScroll: true });
};

const refresh = async () => {
  timer = 0;
  const asked = wanted;
  try {
    const answer = await fetch(location.pathname + location.search, { cache: "no-cache" });
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-part]")) {
      const fresh = page.getElementById(part.id);
      if (fresh) swap(part, document.adoptNode(fresh));
    }
    for (const [name, value] of Object.entries(page.body.dataset)) body.dataset[name] = value;
    if (!("live" in page.body.dataset)) delete body.dataset.live;
    document.title = page.title;
    seq = Math.max(seq, Number(body.dataset.seq));
    failures = 0;
    readClock();
    if (!("live" in body.dataset)) leave("Over");
  } catch {
    failures += 1;
    setTimeout(() => want(asked), Math.min(30000, 1000 * 2 ** failures));
    return;
  }
  if (wanted > asked) want(wanted);
};

// Never more than one look a second, and not all clients in the same instant.
const want = (row) => {
  wanted = Math.max(wanted, row);
  if (!timer) timer = setTimeout(refresh, 300 + Math.random() * 700);
};

// The stream: open only while someone can see the page, so that many tabs don't use up a browser's connections.

const leave = (word) => {
  stream?.close();
  stream = null;
  say(word, "");
};

const poll = async () => {
  if (document.hidden || !("live" in body.dataset) || stream) return;
  try {
    const tick = await (await fetch("/tick.json")).json();
    say("Live", "on");
    if (tick.seq > seq) want(tick.seq);
  } catch {
    say("Not connected", "off");
  }
  setTimeout(poll, 3000 + Math.random() * 3000);
};

const open = () => {
  if (stream || document.hidden || !("live" in body.dataset)) return;
  stream = new EventSource(`/stream?after=${seq}`);
  stream.onopen = () => say("Live", "on");
  stream.onmessage = (event) => { seq = Number(event.lastEventId); want(seq); };
  stream.addEventListener("resync", (event) => { seq = JSON.parse(event.data).seq; want(seq); });
  stream.onerror = () => {
    say("Not connected", "off");
    if (stream?.readyState === EventSource.CLOSED) { stream = null; setTimeout(poll, 3000); } // too many are watching: poll
  };
};

document.addEventListener("visibilitychange", () => {
  if (document.hidden) { stream?.close(); stream = null; } else { open(); want(seq); }
});
addEventListener("pagehide", () => { stream?.close(); stream = null; });
open();

// The clock, between events

let base = 0;
let began = 0;
let late = Number(body.dataset.end) + 1500;
const readClock = () => { base = Number(body.dataset.at); began = performance.now(); };

const hours = (span, seconds) => {
  const total = Math.floor(Math.abs(span) / 1000);
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  return `${h}:${String(m).padStart(2, "0")}${seconds ? `:${String(s).padStart(2, "0")}` : ""}`;
};

const span = (left) => {
  const total = Math.max(0, Math.floor(left / 1000));
  const parts = [[Math.floor(total / 86400), "d"], [Math.floor(total / 3600) % 24, "h"], [Math.floor(total / 60) % 60, "min"], [total % 60, "s"]];
  const first = parts.findIndex(([n]) => n > 0);
  return first < 0 ? "0 s" : parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(" ");
};

const beat = () => {
  if (!("live" in body.dataset)) return;
  const at = base + performance.now() - began;
  const text = hours(at - Number(body.dataset.start), "seconds" in body.dataset);
  document.querySelectorAll("[data-clock]").forEach((one) => { if (one.textContent !== text) one.textContent = text; });
  const sign = at < Number(body.dataset.start) ? "T-" : "T+";
  document.querySelectorAll("[data-sign]").forEach((one) => { if (one.textContent !== sign) one.textContent = sign; });
  const end = Number(body.dataset.end);
  const left = document.querySelector("[data-left]");
  if (left && end > at) left.textContent = left.textContent.replace(/^[\d].*? (?=to |at )/, `${span(end - at)} `);
  else if (left && end && at > late) { late = at + 5000; want(seq); } // the stage should have changed
};
readClock();
setInterval(beat, 500);

// Keys on the trajectory

const list = document.getElementById("steps");
addEventListener("keydown", (event) => {
  if (!list?.matches(".steps") || event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const all = [...document.querySelectorAll(".steps > li[id]")];
  const place = all.findIndex((one) => `#${one.id}` === location.hash);
  const next = all[place < 0 ? 0 : Math.min(all.length - 1, Math.max(0, place + step))];
  if (next) location.replace(`#${next.id}`);
});
