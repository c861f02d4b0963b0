import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';

/** What of the programs a simulation is about. */
const about = /^(?:shared\/(?:quota|decision\/run)|sidecar\/(?:quota|settle|attest|replica|decide))/;

interface FileCoverage {
  readonly file: string;
  readonly blocks: number;
  readonly missed: readonly string[];
}

/** Counts which branches of the bundle run, by V8's own coverage. */
export async function startCoverage(bundle: string): Promise<() => Promise<readonly FileCoverage[]>> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage');
    session.disconnect();
    const script = result.find(({ url }) => url.endsWith(bundle));
    return script === undefined ? [] : coverageOf(readFileSync(bundle, 'utf8'), script.functions);
  };
}

type Functions = readonly {
  readonly functionName: string;
  readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
}[];

function coverageOf(text: string, functions: Functions): FileCoverage[] {
  // The bundler writes the path of each module above it.
  const modules = [...text.matchAll(/^\/\/ (\S+\.ts)$/gm)].map((match) => ({
    file: match[1] ?? '',
    at: match.index,
  }));
  const found = new Map<string, { blocks: number; missed: string[] }>();
  for (const { functionName, ranges } of functions) {
    for (const { startOffset, count } of ranges) {
      const file = modules.findLast(({ at }) => at <= startOffset)?.file ?? '';
      if (!about.test(file)) continue;
      const entry = found.get(file) ?? { blocks: 0, missed: [] };
      found.set(file, entry);
      entry.blocks++;
      const snippet = text.slice(startOffset, startOffset + 60).split('\n')[0] ?? '';
      if (count === 0) entry.missed.push(`${functionName || 'a function'}: ${snippet.trim()}`);
    }
  }
  return [...found].map(([file, entry]) => ({ file, ...entry }));
}
