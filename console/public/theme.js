// Runs before the first paint, so that a chosen theme does not flash in the other one.
try {
  const theme = localStorage.getItem('agent-trust.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage is forbidden here: the theme of the system applies.
}
