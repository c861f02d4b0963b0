import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { contractPages, filesEnding } from '../support/base/sources.ts';

/**
 * Code, tests and docs cite the contract by section, and docs link to each other: what they point at must be
 * there.
 */
const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const [contractPath = '', ...sectionPages] = contractPages;
/** Its own text holds citations that lead nowhere, as controls. */
const thisFile = 'test/unit/citations.test.ts';
/**
 * Migrations that were applied when the contract had another name. Their text is fixed: a database that has
 * applied one refuses to start with another (control-plane/storage/migrate.ts). The numbers of the sections
 * are the same.
 */
const lastMigrationWithEarlierName = 20;
const earlierName = 'decisions';

const files = filesEnding('.ts', '.mjs', '.py', '.sql', '.md').filter((path) => path !== thisFile);

interface Citation {
  /** `5`, or what somebody wrote in its place: `5.1`. */
  readonly section: string;
  readonly text: string;
}

/** One section or several: `§5`, `§5, §6 and §8`, `§2 to §4`. */
const sections = '§ ?\\d+(?:\\.\\d+)*(?:(?:,| and| or|, and| to) § ?\\d+(?:\\.\\d+)*)*';

/**
 * Every section that the text cites of the page of this name, ranges included. A citation may go over the end
 * of a line of a comment.
 */
function citationsIn(text: string, name: string): readonly Citation[] {
  const inOneLine = text.replaceAll(/\s*\n\s*(?:\*|\/\/|--|#|>)?\s*/g, ' ');
  const pattern = new RegExp(`\\b${name} (${sections})`, 'gi');
  return [...inOneLine.matchAll(pattern)].flatMap(([cited, list = '']) =>
    sectionsOf(list).map((section) => ({ section, text: cited })),
  );
}

function sectionsOf(list: string): readonly string[] {
  return list.split(/,? and |,? or |, /).flatMap((part) => {
    const [first = '', last = first] = [...part.matchAll(/[\d.]*\d/g)].map(([number]) => number);
    if (first === last) return [first];
    return Array.from({ length: Number(last) - Number(first) + 1 }, (_, i) => String(Number(first) + i));
  });
}

/** Headings of a page, without what stands in blocks of code. */
const headingsOf = (page: string): readonly string[] =>
  [...withoutCode(page).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => heading);
const withoutCode = (page: string): string => page.replaceAll(/^```[\s\S]*?^```/gm, '');

const numberedSections = headingsOf(read(contractPath)).flatMap((heading) => {
  const number = /^(\d+)\. /.exec(heading)?.[1];
  return number === undefined ? [] : [number];
});
const known: ReadonlySet<string> = new Set(numberedSections);
const unresolved = (citations: readonly Citation[]) => citations.filter(({ section }) => !known.has(section));

const mayUseEarlierName = (path: string): boolean =>
  Number(/^control-plane\/storage\/migrations\/(\d{4})-/.exec(path)?.[1] ?? Number.POSITIVE_INFINITY) <=
  lastMigrationWithEarlierName;

describe('citations of the contract', () => {
  it('have sections 1, 2, 3 and so on to lead to', () => {
    expect(numberedSections).toEqual(numberedSections.map((_, index) => String(index + 1)));
    expect(numberedSections.length).toBeGreaterThanOrEqual(16);
    const titles = sectionPages.map((path) => headingsOf(read(path))[0]);
    expect(titles).toEqual(headingsOf(read(contractPath)).filter((heading) => /^\d/.test(heading)));
  });

  it('lead to a section each, in every file', () => {
    const all = files.flatMap((path) =>
      citationsIn(read(path), 'contract').map((each) => ({ path, ...each })),
    );
    expect(all.length).toBeGreaterThan(200);
    expect(all.filter(({ section }) => !known.has(section))).toEqual([]);
  });

  it('lead to a section each within the contract, which cites itself by number alone', () => {
    const text = contractPages.map(read).join('\n');
    const own = [...text.matchAll(/§(\d+(?:\.\d+)*)/g)].map(([cited, section = '']) => ({
      section,
      text: cited,
    }));
    expect(own.length).toBeGreaterThan(20);
    expect(unresolved(own)).toEqual([]);
  });

  it('name the contract, but for migrations that were applied before it had this name', () => {
    const earlier = files
      .filter((path) => !contractPages.includes(path))
      .flatMap((path) => citationsIn(read(path), earlierName).map((each) => ({ path, ...each })));
    expect(earlier.filter(({ path }) => !mayUseEarlierName(path))).toEqual([]);
    expect(unresolved(earlier)).toEqual([]);
  });
});

/** `file.ts: name`, or `file.ts: Type.member`: a file of the project and what it declares. */
const symbolCitations = (page: string): readonly { readonly file: string; readonly name: string }[] =>
  [...page.replaceAll(/\s*\n\s*/g, ' ').matchAll(/`([\w/.-]+\.ts): ([\w.]+)`/g)].map(
    ([, file = '', name = '']) => ({ file, name }),
  );

/** Names in backticks without a file: `Type.member`, and `camelCase`. */
const bareNames = (page: string): readonly string[] =>
  [...page.matchAll(/`([A-Z]\w*\.\w+|[a-z]+[A-Z]\w*)`/g)].map(([, name = '']) => name);

/** Whether the text declares the name: at its top, or as a member of something. */
function declares(text: string, name: string): boolean {
  const [first = '', member] = name.split('.');
  const atTop = new RegExp(
    `^(?:export )?(?:abstract |async )*(?:class|interface|function\\*?|const|let|type) ${first}\\b`,
    'm',
  );
  const asMember = (each: string) =>
    new RegExp(`^ +(?:(?:readonly|async|get|set|static) )*#?${each}(?:<[^>]*>)?\\??[(:]`, 'm').test(text);
  if (member !== undefined) return atTop.test(text) && asMember(member);
  return atTop.test(text) || asMember(first);
}

describe('docs/tour.md', () => {
  const page = read('docs/tour.md');
  const cited = symbolCitations(page);

  it('cites files that are there, and names that they declare', () => {
    expect(cited.length).toBeGreaterThan(50);
    const wrong = cited.filter(
      ({ file, name }) => !existsSync(join(root, file)) || !declares(read(file), name),
    );
    expect(wrong).toEqual([]);
  });

  it('names nothing else but what one of these files declares', () => {
    const texts = [...new Set(cited.map(({ file }) => file))].map(read);
    const names = bareNames(page);
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !texts.some((text) => declares(text, name)))).toEqual([]);
  });
});

const pages = files.filter((path) => /^(?:docs\/.+|[^/]+)\.md$/.test(path));

/** As GitHub names the anchors of headings; one that occurs again gets a number. */
function anchorsOf(page: string): ReadonlySet<string> {
  const seen = new Map<string, number>();
  const anchors = headingsOf(page).map((heading) => {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-');
    const times = seen.get(slug) ?? 0;
    seen.set(slug, times + 1);
    return times === 0 ? slug : `${slug}-${times}`;
  });
  return new Set(anchors);
}

/** Why each relative link of a page leads nowhere; none: all lead somewhere. */
function brokenLinks(path: string, page: string): readonly string[] {
  const links = [...withoutCode(page).matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)].map(([, link = '']) => link);
  return links.flatMap((link) => {
    const [target = '', fragment] = link.split('#');
    const file = target === '' ? path : normalize(join(dirname(path), target));
    if (file !== path && !existsSync(join(root, file))) return [`${link}: no such file`];
    if (fragment === undefined) return [];
    const text = file === path ? page : read(file);
    return anchorsOf(text).has(fragment) ? [] : [`${link}: no such heading`];
  });
}

describe('links', () => {
  it.each(pages)('of %s lead to files and headings that are there', (path) => {
    expect(brokenLinks(path, read(path))).toEqual([]);
  });

  it('name pages of docs/ that are there, also in plain text', () => {
    const named = pages.flatMap((path) =>
      [...read(path).matchAll(/`(docs\/[a-z-]+\.(?:md|json))`/g)].map(([, page = '']) => ({ path, page })),
    );
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter(({ page }) => !existsSync(join(root, page)))).toEqual([]);
  });

  it('are missed where they lead nowhere (control)', () => {
    const page =
      '# A page\n[a](other.md) [b](#a-page) [c](#b) [d](https://example.com) [e](contract.md#no-such)';
    expect(brokenLinks('docs/page.md', page)).toEqual([
      'other.md: no such file',
      '#b: no such heading',
      'contract.md#no-such: no such heading',
    ]);
  });
});

it('docs/pages.md leads to every page of docs and of docs/operate', () => {
  const shown = read('docs/pages.md');
  const wanted = pages.filter((path) => /^docs\/(?:operate\/)?(?!pages)[^/]+$/.test(path));
  expect(wanted.length).toBeGreaterThan(40);
  expect(wanted.filter((path) => !shown.includes(`](${path.slice('docs/'.length)})`))).toEqual([]);
});

describe('docs/glossary.md', () => {
  const entries = [
    ...read('docs/glossary.md').matchAll(/^- \*\*(.+?)\*\*:([\s\S]*?)(?=^- \*\*|$(?![\s\S]))/gm),
  ].map(([, word = '', meaning = '']) => ({ word, meaning }));

  it('has each word once, in the order of the alphabet', () => {
    const words = entries.map(({ word }) => word.toLowerCase());
    expect(words.length).toBeGreaterThan(60);
    expect(words).toEqual([...new Set(words)].sort());
  });

  it('names for each word a file that is there', () => {
    const files = entries.map(({ word, meaning }) => ({
      word,
      file: /`([a-z-]+\/[^`]+\.ts)`\s*$/.exec(meaning)?.[1] ?? '',
    }));
    expect(files.filter(({ file }) => file === '' || !existsSync(join(root, file)))).toEqual([]);
  });
});
