/** `public/theme.js` applies the same choice before the first paint. */
const key = 'agent-trust.theme';

type Theme = 'system' | 'light' | 'dark';
const themeOf = (text: string | null | undefined): Theme =>
  text === 'light' || text === 'dark' ? text : 'system';

export const shownTheme = (): Theme => themeOf(document.documentElement.dataset['theme']);

/** Shows the theme from now on, in every tab that is opened later too. */
export function chooseTheme(text: string): Theme {
  const theme = themeOf(text);
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
  localStorage.setItem(key, theme);
  return theme;
}
