import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where the guide is served. */
export const guidePath = '/docs/guide';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Pages outside of `docs`, in the order in which the table of contents has them. */
const pagesOfRoot = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CHANGELOG.md',
  'clients/node/README.md',
  'clients/python/README.md',
] as const;

export const readSource = (path: string): string => readFileSync(`${root}${path}`, 'utf8');

export const isFile = (path: string): boolean =>
  existsSync(`${root}${path}`) && statSync(`${root}${path}`).isFile();

/** Paths of all Markdown files that are pages of the guide. */
export function pagePaths(): readonly string[] {
  const docs = readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name.replaceAll('\\', '/')}`);
  return [...pagesOfRoot, ...docs.toSorted()];
}

/** `docs/operate/hour.md` is `operate/hour`; a README is its folder, and that of the project is ''. */
export const slugOf = (path: string): string =>
  path
    .replace(/^docs\//, '')
    .replace(/(?:^|\/)README\.md$/, '')
    .replace(/\.md$/, '')
    .toLowerCase();

/** The address of the page of this Markdown file. */
export const addressOf = (path: string): string =>
  [guidePath, slugOf(path)].filter((part) => part !== '').join('/');

/** The address of a file that pages link to and that is no page, such as an example. */
export const fileAddressOf = (path: string): string =>
  // The service generates this one, with its own addresses.
  path === 'docs/openapi.json' ? '/openapi.json' : `${guidePath}/files/${path}`;

/** The path below the root of the project at which a link of a page points. */
export const targetOf = (page: string, link: string): string =>
  link === '' ? page : posix.normalize(posix.join(posix.dirname(page), link));
