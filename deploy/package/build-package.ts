import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundlePrograms } from './bundle-programs.ts';
import { addDeclarations } from './declarations.ts';
import { billOfMaterials, thirdPartyText, withConsole } from './third-party.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Makes `folder`, all that the package has beside `package.json`: programs, console, types of
 * `agent-trust/embedded`, the licenses of others, and the list of what is in it for scanners, which see no
 * dependencies. `consoleFolder` is what Vite has built.
 */
export async function buildPackage(of: {
  readonly folder: string;
  readonly consoleFolder: string;
}): Promise<void> {
  const { folder, consoleFolder } = of;
  const bundled = withConsole(await bundlePrograms(folder), consoleFolder);
  await cp(consoleFolder, join(folder, 'console/dist'), { recursive: true });
  await addDeclarations({ root, folder, module: 'sidecar/embedded/start-embedded' });
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const bill = JSON.stringify(billOfMaterials({ version, bundled }), null, 1);
  await writeFile(join(folder, 'THIRD-PARTY.txt'), thirdPartyText(bundled));
  await writeFile(join(folder, 'sbom.cdx.json'), `${bill}\n`);
}
