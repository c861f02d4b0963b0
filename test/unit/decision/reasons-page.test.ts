import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { reasons } from '../../../shared/decision/reasons.ts';

const page = readFileSync(new URL('../../../docs/decisions.md', import.meta.url), 'utf8');
const rows = [...page.matchAll(/^\| `([a-z_]+)` \| ([A-Z].*?\.) \| (.+) \|$/gm)];

/** A limit lasts as long as its window: what its row in the code says of a retry is not what is answered. */
function wantedRetry(reason: string, { retryable, afterMs }: (typeof reasons)[keyof typeof reasons]): string {
  if (reason.endsWith('_limit_exceeded')) return 'at `reset_at`, if there is one';
  if (!retryable) return 'no';
  return afterMs === null ? 'later' : `after ${afterMs} ms`;
}

describe('the reasons in docs/decisions.md', () => {
  it('are those of the code, each with its sentence and what it says about trying again', () => {
    expect(rows.map(([, reason, detail, again]) => [reason, detail, again])).toEqual(
      Object.entries(reasons).map(([reason, row]) => [reason, row.detail, wantedRetry(reason, row)]),
    );
  });
});
