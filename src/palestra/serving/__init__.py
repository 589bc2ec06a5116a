"""Model servers as processes: started, asked and stopped. Settings and questions go in, answers come out."""
