import { setFlagsFromString } from 'node:v8';
import { afterEach, expect, test } from 'vitest';
import { growYoungGenerationAtOnce } from '../../sidecar/startup/young-generation.ts';
import { youngGenerationBytes, youngGenerationBytesMax } from '../support/young-generation.ts';

afterEach(() => setFlagsFromString('--semi-space-growth-factor=2'));

test('the young generation has its full size once a little has survived', async () => {
  expect(await youngGenerationBytes()).toBeLessThan(youngGenerationBytesMax / 2);
  growYoungGenerationAtOnce();
  expect(await youngGenerationBytes()).toBe(youngGenerationBytesMax);
});
