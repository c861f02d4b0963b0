import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** Of a young generation that V8 lets grow no further, both halves. */
export const youngGenerationBytesMax = 2 * 16 * 1024 * 1024;

const program = `
  const { parentPort } = require('node:worker_threads');
  const { getHeapSpaceStatistics } = require('node:v8');
  const kept = [];
  for (let i = 0; i < 3_000; i++) kept.push(new Array(16).fill(i));
  for (let i = 0; i < 200_000; i++) new Array(16).fill(i);
  const { space_size } = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  parentPort.postMessage(kept.length > 0 ? space_size : 0);`;

/** In a new thread, which begins with a small one: its size when less than 1 MiB has survived. */
export async function youngGenerationBytes(): Promise<number> {
  const thread = new Worker(program, { eval: true });
  const [bytes] = await once(thread, 'message');
  await thread.terminate();
  return bytes;
}
