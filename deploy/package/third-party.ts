import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A package of others that is in ours. */
export interface Bundled {
  readonly name: string;
  readonly version: string;
  /** As SPDX names it. */
  readonly license: string;
  /** Null: the package comes without the text. */
  readonly text: string | null;
  /** Of the archive in the registry, from the lock file; null: the console's list does not say. */
  readonly integrity: string | null;
}

/**
 * Code of others inside the two native dependencies, which their packages do not name. Their texts are with
 * their sources.
 */
const insideNativeCode = [
  { name: 'uWebSockets.js', license: 'Apache-2.0', url: 'https://github.com/uNetworking/uWebSockets.js' },
  { name: 'uWebSockets, uSockets', license: 'Apache-2.0', url: 'https://github.com/uNetworking' },
  {
    name: 'BoringSSL',
    license: 'OpenSSL AND ISC AND MIT',
    url: 'https://boringssl.googlesource.com/boringssl',
  },
  { name: 'lsquic', license: 'MIT', url: 'https://github.com/litespeedtech/lsquic' },
  { name: 'libsodium', license: 'ISC', url: 'https://github.com/jedisct1/libsodium' },
] as const;

/** The packages to which files belong, by their paths below the root of the project, each once. */
export function bundledPackages(of: {
  readonly root: string;
  readonly inputs: readonly string[];
  readonly others: readonly string[];
}): readonly Bundled[] {
  const lock = JSON.parse(readFileSync(join(of.root, 'package-lock.json'), 'utf8'));
  const folders = [...of.inputs, ...of.others, 'node_modules/@fastify/swagger-ui'].flatMap(
    (path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)(?:\/|$)/.exec(path)?.[1] ?? [],
  );
  const found = [...new Set(folders)].map((folder): Bundled => {
    const { name, version, license } = JSON.parse(
      readFileSync(join(of.root, folder, 'package.json'), 'utf8'),
    );
    const integrity = lock.packages[folder]?.integrity ?? null;
    return { name, version, license: String(license), text: licenseText(join(of.root, folder)), integrity };
  });
  return unique(found);
}

/** Adds the packages of the console, of which Vite leaves a list in its folder. */
export function withConsole(bundled: readonly Bundled[], consoleFolder: string): readonly Bundled[] {
  const listed: readonly { name: string; version: string; identifier: string; text: string | null }[] =
    JSON.parse(readFileSync(join(consoleFolder, 'licenses.json'), 'utf8'));
  const ofConsole = listed.map(({ name, version, identifier, text }) => ({
    ...{ name, version, license: identifier, text, integrity: null },
  }));
  return unique([...ofConsole, ...bundled]);
}

function unique(all: readonly Bundled[]): readonly Bundled[] {
  const byName = new Map(all.map((each) => [`${each.name}@${each.version}`, each]));
  return [...byName.keys()].toSorted().flatMap((key) => byName.get(key) ?? []);
}

/** With the notices that Apache-2.0 wants kept. */
function licenseText(folder: string): string | null {
  const names = readdirSync(folder).filter((name) => /^(?:licen[cs]e|copying|notice)\b/i.test(name));
  const texts = names.toSorted().map((name) => readFileSync(join(folder, name), 'utf8').trim());
  return texts.length === 0 ? null : texts.join('\n\n');
}

/** THIRD-PARTY.txt: a list of all, and then the text of each licence with those to which it applies. */
export function thirdPartyText(all: readonly Bundled[]): string {
  const byText = new Map<string, string[]>();
  for (const { name, version, license, text } of all) {
    const shown = text ?? `The package comes without a text. It names the license ${license}.`;
    byText.set(shown, [...(byText.get(shown) ?? []), `${name} ${version}`]);
  }
  return [
    'Software of others in this package, and its licenses.',
    all.map(({ name, version, license }) => `${name} ${version}: ${license}`).join('\n'),
    'Inside the files with native code (`*.node`):',
    insideNativeCode.map(({ name, license, url }) => `${name}: ${license}, ${url}`).join('\n'),
    ...[...byText].map(([text, names]) => `${'-'.repeat(80)}\n${names.join(', ')}\n\n${text}`),
    '',
  ].join('\n\n');
}

/** CycloneDX 1.5 of what is in the package. */
export function billOfMaterials(of: {
  readonly version: string;
  readonly bundled: readonly Bundled[];
}): unknown {
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: {
      component: {
        ...{ type: 'application', 'bom-ref': 'agent-trust', name: 'agent-trust', version: of.version },
        licenses: [{ license: { id: 'Apache-2.0' } }],
      },
    },
    components: of.bundled.map(({ name, version, license, integrity }) => {
      const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
      const [algorithm, digest] = (integrity ?? '').split('-', 2);
      return {
        ...{ type: 'library', 'bom-ref': purl, name, version, purl },
        licenses: [/ (?:OR|AND) |^\(/.test(license) ? { expression: license } : { license: { id: license } }],
        ...(algorithm === 'sha512' && digest !== undefined
          ? { hashes: [{ alg: 'SHA-512', content: Buffer.from(digest, 'base64').toString('hex') }] }
          : {}),
      };
    }),
  };
}
