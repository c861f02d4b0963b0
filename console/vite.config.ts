import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';
import { buildGuide } from './guide/build-guide.ts';

/** Adds the guide, which the control plane serves at `/docs/guide`. */
const guide: Plugin = {
  name: 'guide',
  generateBundle() {
    for (const [name, source] of buildGuide()) {
      this.emitFile({ type: 'asset', fileName: `guide/${name}`, source });
    }
  },
};

/** `npm run build:console` writes `console/dist`, which the control plane serves at `/console`. */
export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: '/console/',
  plugins: [guide],
  build: {
    // Browsers of the last two years or so.
    target: 'es2022',
    // The first of each with light-dark().
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    // The policy of the pages allows no data: addresses for scripts and fonts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    manifest: 'manifest.json',
    // For the list of the package (deploy/package/third-party.ts).
    license: { fileName: 'licenses.json' },
  },
});
