import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Adds Debian's packages and Node.js to the bill of materials of the service:
 *
 *     tsx deploy/image/list-contents.ts <root of the image> <version of Node.js>
 */
const [root = '', nodeVersion = ''] = process.argv.slice(2);
const bill = JSON.parse(readFileSync(join(root, 'app/dist/sbom.cdx.json'), 'utf8'));
const status = join(root, 'var/lib/dpkg/status.d');

const debian = readdirSync(status).map((file) => {
  const text = readFileSync(join(status, file), 'utf8');
  const field = (name: string): string => new RegExp(`^${name}: (.*)$`, 'm').exec(text)?.[1] ?? '';
  const [name, version] = [field('Package'), field('Version')];
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${field('Architecture')}`;
  return { type: 'library', 'bom-ref': purl, name, version, purl };
});
const node = {
  ...{
    type: 'application',
    'bom-ref': `pkg:generic/node@${nodeVersion}`,
    name: 'node',
    version: nodeVersion,
  },
  ...{ purl: `pkg:generic/node@${nodeVersion}`, licenses: [{ license: { id: 'MIT' } }] },
};
bill.metadata.component.type = 'container';
bill.components.push(node, ...debian);
process.stdout.write(`${JSON.stringify(bill, null, 1)}\n`);
