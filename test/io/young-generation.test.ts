import { setFlagsFromString } from 'node:v8';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { growYoungGenerationAtOnce } from '../../sidecar/startup/young-generation.ts';
import { youngGenerationBytes, youngGenerationBytesMax } from '../support/base/young-generation.ts';

const growAsUsual = () => setFlagsFromString('--semi-space-growth-factor=2');
// Other tests of this process may have started a sidecar before.
beforeEach(growAsUsual);
afterEach(growAsUsual);

test('the young generation has its full size once a little has survived', async () => {
  expect(await youngGenerationBytes()).toBeLessThan(youngGenerationBytesMax / 2);
  growYoungGenerationAtOnce();
  expect(await youngGenerationBytes()).toBe(youngGenerationBytesMax);
});
