import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildPackage } from './build-package.ts';

/**
 * `npm run build`, behind the console: makes `dist`, from which `npm start` runs and which `npm pack` ships.
 */
const root = fileURLToPath(new URL('../../', import.meta.url));

await buildPackage({ folder: join(root, 'dist'), consoleFolder: join(root, 'console/dist') });
