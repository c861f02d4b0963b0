import { Gauge } from 'prom-client';
import { secondMs } from '../../shared/model/time.ts';
import type { LogDeps } from './deps.ts';
import type { LogState } from './log-state.ts';

export function addLogMetrics(
  { metrics, clock, witnesses }: Pick<LogDeps, 'metrics' | 'clock' | 'witnesses'>,
  state: Pick<LogState, 'published' | 'witnesses'>,
): void {
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      ...{ name: `agent_trust_log_${name}`, help, registers: [metrics] },
      collect() {
        this.set(read());
      },
    });
  gauge('size', 'Entries in the newest checkpoint of the log.', () => state.published?.publishedSize ?? 0);
  gauge(
    'witnessed_size',
    'Entries in the newest checkpoint that a quorum of the witnesses cosigned.',
    () => state.published?.witnessedSize ?? 0,
  );
  let sinceMs: number | null = null;
  let witnessedSize = 0;
  gauge('unwitnessed_seconds', 'For how long entries have waited for a checkpoint with its quorum.', () => {
    const { published } = state;
    const nowMs = clock.monotonic();
    const isBehind = witnesses !== null && published !== null && published.witnessedSize < published.size;
    // A log that grows all the time may be behind at each look: those that wait now are others.
    const hasMoved = published?.witnessedSize !== witnessedSize;
    witnessedSize = published?.witnessedSize ?? 0;
    sinceMs = isBehind ? (hasMoved ? nowMs : (sinceMs ?? nowMs)) : null;
    return sinceMs === null ? 0 : (nowMs - sinceMs) / secondMs;
  });
  const faults = new Gauge({
    name: 'agent_trust_log_witness_fault',
    help: 'By witness: 1 while it has not cosigned the newest checkpoint; the label names why.',
    labelNames: ['witness', 'fault'],
    registers: [metrics],
    collect() {
      faults.reset();
      for (const { witness, fault } of state.witnesses)
        faults.set({ witness, fault: fault ?? 'none' }, fault === null ? 0 : 1);
    },
  });
}
