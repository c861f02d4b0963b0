import { measuredCore } from './cores.ts';
import { program } from './installation.ts';
import { memoryOf } from './memory.ts';
import { type Program, start } from './programs.ts';
import type { Side } from './rounds.ts';

/** `agent-trust attestations verify` or `replay`, as users run it: the whole file each time. */
export function commandSide(
  command: 'verify' | 'replay',
  of: { readonly file: string; readonly jwks: string; readonly records: number },
): {
  readonly side: Side;
  /** Bytes of memory that it has had at most, of all runs so far. */
  peak(): number;
} {
  let peak = 0;
  return {
    side: {
      name: `agent-trust attestations ${command}`,
      measure: async () => {
        const before = performance.now();
        const words = [process.execPath, program, 'attestations', command, of.file, '--jwks', of.jwks];
        const run = start({ core: measuredCore, command: words });
        const used = watch(run);
        const code = await run.ended;
        const seconds = (performance.now() - before) / 1_000;
        if (code !== 0) await run.find(/(?!)/);
        const { cpuSeconds, peakBytes } = used();
        peak = Math.max(peak, peakBytes);
        return {
          perSecond: of.records / seconds,
          perCpuSecond: of.records / cpuSeconds,
          coresBusy: cpuSeconds / seconds,
        };
      },
    },
    peak: () => peak,
  };
}

/** What a program had used shortly before its end; afterwards /proc has nothing of it. */
function watch({ pid, cpuSeconds, ended }: Program): () => { cpuSeconds: number; peakBytes: number } {
  let used = { cpuSeconds: 0, peakBytes: 0 };
  const timer = setInterval(() => {
    const { peak } = memoryOf(pid);
    // A zombie has no memory.
    if (peak > 0) used = { cpuSeconds: cpuSeconds(), peakBytes: peak };
  }, 20);
  void ended.then(() => clearInterval(timer));
  return () => used;
}
