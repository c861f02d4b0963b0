import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../base/until.ts';
import type { Running } from './installation.ts';

/** Settings with which a program writes its heap into its current folder when `heapOf` asks. */
export const showsHeap = (folder: string): Readonly<Record<string, string>> => ({
  NODE_OPTIONS: `--heapsnapshot-signal=SIGUSR2 --diagnostic-dir=${folder}`,
});

/** What lives in a program and holds more than it needs. */
export interface Held {
  /** Slabs of Node's buffer pool, 8 KiB each, of which some buffer is still used. */
  readonly slabs: number;
  /** Texts that V8 has cut from a text of more than 16 KiB, which they keep. */
  readonly cuts: number;
}

/** After a garbage collection, as V8 makes it before each snapshot. `folder`: given to `showsHeap`. */
export async function heapOf({ program }: Running, folder: string): Promise<Held> {
  const files = () => readdirSync(folder).filter((name) => name.endsWith('.heapsnapshot'));
  for (const name of files()) rmSync(join(folder, name));
  process.kill(program.pid, 'SIGUSR2');
  let snapshot: Snapshot | null = null;
  await until(
    () => {
      snapshot = wholeSnapshot(files().map((name) => join(folder, name)));
      return snapshot !== null;
    },
    { what: 'the heap of the program', timeoutMs: 60_000 },
  );
  return heldIn(snapshot as unknown as Snapshot);
}

interface Snapshot {
  readonly snapshot: {
    readonly meta: {
      readonly node_fields: readonly string[];
      readonly node_types: readonly [readonly string[], ...unknown[]];
      readonly edge_fields: readonly string[];
    };
  };
  readonly nodes: readonly number[];
  readonly edges: readonly number[];
  readonly strings: readonly string[];
}

/** Null: there is none, or it is being written. */
function wholeSnapshot([path]: readonly string[]): Snapshot | null {
  try {
    return path === undefined ? null : JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}

const slabBytes = Buffer.poolSize;
const largeTextBytes = 16 * 1024;

function heldIn({ snapshot: { meta }, nodes, edges, strings }: Snapshot): Held {
  const field = (name: string) => meta.node_fields.indexOf(name);
  const [type, name, size, edgeCount] = ['type', 'name', 'self_size', 'edge_count'].map(field) as [
    number,
    number,
    number,
    number,
  ];
  const cut = meta.node_types[0].indexOf('sliced string');
  const toNode = meta.edge_fields.indexOf('to_node');
  let edge = 0;
  let slabs = 0;
  let cuts = 0;
  for (let node = 0; node < nodes.length; node += meta.node_fields.length) {
    const at = (offset: number) => nodes[node + offset] ?? 0;
    if (strings[at(name)] === 'system / JSArrayBufferData' && at(size) === slabBytes) slabs += 1;
    for (let last = edge + at(edgeCount); edge < last; edge += 1) {
      if (at(type) !== cut) continue;
      const parent = edges[edge * meta.edge_fields.length + toNode] ?? 0;
      if ((nodes[parent + size] ?? 0) > largeTextBytes) cuts += 1;
    }
  }
  return { slabs, cuts };
}
