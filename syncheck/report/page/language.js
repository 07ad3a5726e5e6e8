// uPlot formats numbers for `navigator.language`, which is not a valid tag in a POSIX locale ("en-US@posix").
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en-US" });
}
