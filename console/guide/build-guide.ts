import { layOut } from './layout.ts';
import { type RenderedPage, renderMarkdown } from './render-markdown.ts';
import {
  addressOf,
  fileAddressOf,
  guidePath,
  isFile,
  pagePaths,
  readSource,
  slugOf,
  targetOf,
} from './sources.ts';

/**
 * The files of the guide by their names below `guide/` of the built console: its pages, its style, and what
 * pages link to. Throws on a link that leads nowhere, so that no build has one.
 */
export function buildGuide(): ReadonlyMap<string, string> {
  const paths = pagePaths();
  const pages = new Map(paths.map((path) => [path, render(path, new Set(paths))]));
  checkAnchors(pages);
  const entries = paths.map((path) => ({ path, title: pages.get(path)?.title ?? path }));
  const files = new Map<string, string>();
  for (const [path, page] of pages) {
    files.set(`${slugOf(path) || 'index'}.html`, layOut({ path, ...page, entries }));
    for (const file of page.files) files.set(`files/${file}.txt`, readSource(file));
  }
  // No page by itself: the service puts in what it finds.
  const html = '<h1>Search</h1><!-- results -->';
  files.set('search-page.txt', layOut({ path: '', title: 'Search', html, headings: [], entries }));
  files.set(
    'guide.css',
    `${readSource('console/src/ui/tokens.css')}\n${readSource('console/guide/guide.css')}`,
  );
  return files;
}

interface Page extends RenderedPage {
  /** Files that it links to and that are no pages. */
  readonly files: readonly string[];
  /** Addresses with an anchor, of the guide. */
  readonly anchors: readonly string[];
}

function render(path: string, known: ReadonlySet<string>): Page {
  const files: string[] = [];
  const anchors: string[] = [];
  const addressFor = (link: string): string => {
    if (/^https?:/.test(link)) return link;
    const [file = '', anchor] = link.split('#', 2);
    const target = targetOf(path, file);
    if (known.has(target)) {
      const address = anchor === undefined ? addressOf(target) : `${addressOf(target)}#${anchor}`;
      if (anchor !== undefined) anchors.push(address);
      return address;
    }
    if (!isFile(target)) throw new Error(`${path} links to ${link}, which is no file.`);
    if (fileAddressOf(target).startsWith(guidePath)) files.push(target);
    return fileAddressOf(target);
  };
  try {
    return { ...renderMarkdown(readSource(path), addressFor), files, anchors };
  } catch (cause) {
    throw new Error(`${path} cannot be rendered: ${cause instanceof Error ? cause.message : cause}`, {
      cause,
    });
  }
}

function checkAnchors(pages: ReadonlyMap<string, Page>): void {
  const known = new Set(
    [...pages].flatMap(([path, { headings }]) =>
      headings.map(({ anchor }) => `${addressOf(path)}#${anchor}`),
    ),
  );
  for (const [path, { anchors }] of pages) {
    const dead = anchors.find((address) => !known.has(address));
    if (dead !== undefined) throw new Error(`${path} links to ${dead}, which no heading has.`);
  }
}
