import type { Heading } from './render-markdown.ts';
import { addressOf } from './sources.ts';

export interface Entry {
  readonly path: string;
  readonly title: string;
}

/** Groups of the table of contents: the pages whose paths match, in the order of the first column. */
const groups: readonly (readonly [title: string, pattern: RegExp])[] = [
  ['Begin', /^(?:README\.md|docs\/(?:pages|tour|contract|console|glossary|integrations|decisions)\.md)$/],
  ['Contract', /^docs\/contract\//],
  ['Integrations', /^docs\/integrations\/|^clients\//],
  ['Identity', /^docs\/identity/],
  ['Operation', /^docs\/operate\//],
  ['Decision records', /^docs\/adr\/README\.md$/],
  ['Project', /^[A-Z]+\.md$/],
  ['Reference', /^docs\/[^/]+\.md$/],
];

const groupOf = (path: string): string | null =>
  groups.find(([, pattern]) => pattern.test(path))?.[0] ?? null;

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** The HTML document of a page. Without a script: in a narrow window the contents stand below the page. */
export function layOut(of: {
  readonly path: string;
  readonly title: string;
  readonly html: string;
  readonly headings: readonly Heading[];
  readonly entries: readonly Entry[];
}): string {
  const { path, title, html, headings, entries } = of;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)} · agent-trust guide</title>
<link rel="icon" href="/console/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/docs/guide/guide.css">
</head>
<body>
<a class="skip" href="#main">Skip to the page</a>
<header class="top"><a class="brand" href="/docs/guide">agent-trust guide</a>
<form action="/docs/guide/search" role="search"><input type="search" name="q" maxlength="200" aria-label="Search the guide" placeholder="Search the guide"></form>
<nav aria-label="Service"><a class="to-contents" href="#contents">Contents</a> <a href="/console/">Console</a> <a href="/docs/">API</a></nav></header>
<div class="frame">
<main id="main">
<article>${withOutline(html, headings)}</article>
</main>
<nav class="contents" id="contents" aria-label="Contents">${contentsOf(path, entries)}</nav>
</div>
</body>
</html>
`;
}

function contentsOf(path: string, entries: readonly Entry[]): string {
  return groups
    .map(([group]) => {
      const links = entries.filter((entry) => groupOf(entry.path) === group);
      const items = links.map((entry) => {
        const current = entry.path === path ? ' aria-current="page"' : '';
        return `<li><a href="${addressOf(entry.path)}"${current}>${escaped(entry.title)}</a></li>`;
      });
      return `<h2>${group}</h2><ul>${items.join('')}</ul>`;
    })
    .join('');
}

/** Puts the sections of the page below its title. A page of one or two sections needs no list of them. */
function withOutline(html: string, headings: readonly Heading[]): string {
  const sections = headings.filter(({ level }) => level === 2);
  if (sections.length < 3) return html;
  const items = sections.map(({ anchor, text }) => `<li><a href="#${anchor}">${escaped(text)}</a></li>`);
  const outline = `<nav class="outline" aria-label="On this page"><ul>${items.join('')}</ul></nav>`;
  return html.replace('</h1>', () => `</h1>${outline}`);
}
