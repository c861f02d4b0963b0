import type { ConsoleFiles } from './served-file.ts';

/** A section of a page of the guide. */
interface Section {
  readonly address: string;
  readonly page: string;
  readonly heading: string;
  readonly text: string;
  /** All of it in lower case. */
  readonly sought: string;
}

export interface Found {
  readonly address: string;
  readonly page: string;
  readonly heading: string;
  readonly excerpt: string;
}

/** Each word is looked for in all of the guide, about a megabyte. */
const searchWordsMax = 8;
export const searchCharsMax = 200;
const foundMax = 50;
const excerptChars = 200;

/** The sections of all pages, from the pages as they were built. */
export function readSections(files: ConsoleFiles): readonly Section[] {
  return [...files].flatMap(([name, { bytes }]) => {
    const slug = /^guide\/(.+)\.html$/.exec(name)?.[1];
    return slug === undefined ? [] : sectionsOf(slug, bytes.toString('utf8'));
  });
}

function sectionsOf(slug: string, html: string): readonly Section[] {
  const article = /<article>(.*)<\/article>/s.exec(html)?.[1] ?? '';
  const parts = article.replace(/<nav.*?<\/nav>/gs, '').split(/(?=<h[1-3] id=")/);
  const page = textOf(/<h1[^>]*>(.*?)<\/h1>/s.exec(article)?.[1] ?? slug);
  const base = slug === 'index' ? '/docs/guide' : `/docs/guide/${slug}`;
  return parts.flatMap((part) => {
    const [head, anchor = '', title = ''] = /^<h[1-3] id="([^"]+)">(.*?)<\/h[1-3]>/s.exec(part) ?? [];
    const text = textOf(head === undefined ? part : part.slice(head.length));
    const heading = textOf(title);
    if (head === undefined && text === '') return [];
    const address = anchor === '' ? base : `${base}#${anchor}`;
    return [{ address, page, heading, text, sought: `${page}\n${heading}\n${text}`.toLowerCase() }];
  });
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };

const textOf = (html: string): string =>
  html
    .replace(/<[^>]*>/g, ' ')
    .replace(/&(amp|lt|gt|quot|#39);/g, (_all, name: string) => entities[name] ?? '')
    .replace(/\s+/g, ' ')
    .trim();

/** The sections that hold every word, those with words in their heading or title first. */
export function searchGuide(sections: readonly Section[], query: string): readonly Found[] {
  const words = wordsOf(query);
  if (words.length === 0) return [];
  return sections
    .filter(({ sought }) => words.every((word) => sought.includes(word)))
    .map((section) => ({ section, rank: rankOf(section, words) }))
    .toSorted((one, other) => other.rank - one.rank)
    .slice(0, foundMax)
    .map(({ section: { address, page, heading, text } }) => ({
      ...{ address, page, heading },
      excerpt: excerptOf(text, words),
    }));
}

const wordsOf = (query: string): readonly string[] =>
  query.slice(0, searchCharsMax).toLowerCase().split(/\s+/).filter(Boolean).slice(0, searchWordsMax);

const rankOf = ({ page, heading }: Section, words: readonly string[]): number =>
  words.reduce(
    (sum, word) =>
      sum + (heading.toLowerCase().includes(word) ? 2 : 0) + (page.toLowerCase().includes(word) ? 1 : 0),
    0,
  );

function excerptOf(text: string, words: readonly string[]): string {
  const lower = text.toLowerCase();
  const places = words.map((word) => lower.indexOf(word)).filter((place) => place >= 0);
  const first = places.length === 0 ? 0 : Math.min(...places);
  const from = Math.max(0, first - excerptChars / 4);
  const cut = text.slice(from, from + excerptChars).toWellFormed();
  return `${from > 0 ? '… ' : ''}${cut}${from + excerptChars < text.length ? ' …' : ''}`;
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** What stands in the page of results. */
export function renderFound(query: string, found: readonly Found[]): string {
  if (query.trim() === '') return '<p>Type words to look for.</p>';
  const count = found.length === foundMax ? `The first ${foundMax}` : `${found.length}`;
  const items = found.map(
    ({ address, page, heading, excerpt }) =>
      `<li><a href="${escaped(address)}">${escaped(heading === '' ? page : heading)}</a> <small>${escaped(page)}</small><p>${escaped(excerpt)}</p></li>`,
  );
  return `<p>${count} found for “${escaped(query)}”.</p><ul class="found">${items.join('')}</ul>`;
}
