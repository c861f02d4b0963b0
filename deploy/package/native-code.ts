import { existsSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';

/**
 * Servers run on Linux. On any other system, and where a file does not load, Node's own HTTP and signatures
 * do the work (docs/operate/deploy.md), so what is built on a desk adds the files of that desk alone.
 */
const shippedPlatforms = ['linux-x64', 'linux-arm64'];

/** NODE_MODULE_VERSION of Node 20 and 22, for which uWebSockets.js has files. */
const moduleVersions = [115, 127];

/**
 * Puts the two dependencies with native code into `node_modules` of the bundle, where Node.js finds them
 * first: of each, its code and one file for each platform. They come with files for 13 and for 6 platforms.
 * Resolves with the folders that they were taken from, and those of what was packed with them.
 */
export async function copyNativeCode(at: {
  readonly root: string;
  readonly folder: string;
}): Promise<readonly string[]> {
  const from = (path: string) => join(at.root, 'node_modules', path);
  const to = (path: string) => join(at.folder, 'node_modules', path);
  const copy = (path: string) => cp(from(path), to(path));
  const platforms = new Set([...shippedPlatforms, `${process.platform}-${process.arch}`]);

  for (const file of ['package.json', 'dist/index.mjs', 'dist/uws.mjs']) await copy(`uWebSockets.js/${file}`);
  for (const platform of platforms) {
    for (const version of moduleVersions) {
      const file = `uWebSockets.js/dist/bin/uws_${platform.replace('-', '_')}_${version}.node`;
      if (existsSync(from(file))) await copy(file);
    }
    const file = `sodium-native/prebuilds/${platform}/sodium-native.node`;
    if (existsSync(from(file))) await copy(file);
  }
  await copy('sodium-native/package.json');
  const { metafile } = await build({
    absWorkingDir: at.root,
    entryPoints: ['node_modules/sodium-native/index.js'],
    outfile: to('sodium-native/index.js'),
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    minifyWhitespace: true,
    legalComments: 'none',
    metafile: true,
    logLevel: 'error',
  });
  return ['node_modules/uWebSockets.js', ...Object.keys(metafile.inputs).map((path) => dirname(path))];
}
