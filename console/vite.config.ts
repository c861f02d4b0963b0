import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

/** `npm run build:console` writes `console/dist`, which the control plane serves at `/console`. */
export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: '/console/',
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
