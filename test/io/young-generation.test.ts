import { once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { growYoungGenerationAtOnce } from '../../sidecar/startup/young-generation.ts';

/** Both halves. */
const fullBytes = 2 * 16 * 1024 * 1024;

/** In a new thread, which begins with a small one: its size when less than 1 MiB has survived. */
const program = `
  const { parentPort } = require('node:worker_threads');
  const { getHeapSpaceStatistics } = require('node:v8');
  const kept = [];
  for (let i = 0; i < 3_000; i++) kept.push(new Array(16).fill(i));
  for (let i = 0; i < 200_000; i++) new Array(16).fill(i);
  const { space_size } = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  parentPort.postMessage(kept.length > 0 ? space_size : 0);`;

async function youngGenerationBytes(): Promise<number> {
  const thread = new Worker(program, { eval: true });
  const [bytes] = await once(thread, 'message');
  await thread.terminate();
  return bytes;
}

afterEach(() => setFlagsFromString('--semi-space-growth-factor=2'));

test('the young generation has its full size once a little has survived', async () => {
  expect(await youngGenerationBytes()).toBeLessThan(fullBytes / 2);
  growYoungGenerationAtOnce();
  expect(await youngGenerationBytes()).toBe(fullBytes);
});
