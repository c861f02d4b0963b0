import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { printPhase } from '../print-phase.ts';
import { buildPackage } from './build-package.ts';

/** `npm run build`: makes `dist`, from which `npm start` runs and which `npm pack` ships. */
const root = fileURLToPath(new URL('../../', import.meta.url));
// Not on standard output, which is that of `npm pack --json`, too.
const begin = printPhase(process.stderr);

begin('building the console');
execFileSync('npm', ['run', '-s', 'build:console'], { cwd: root, stdio: 'inherit' });
begin('bundling the programs');
await buildPackage({ folder: join(root, 'dist'), consoleFolder: join(root, 'console/dist') });
