import type { ReactNode } from 'react';
import { words } from './format.ts';

const tones: Readonly<Record<string, 'good' | 'warn' | 'bad' | 'accent'>> = {
  active: 'good',
  enabled: 'good',
  succeeded: 'good',
  approved: 'good',
  used: 'good',
  PERMIT: 'good',
  allow: 'good',
  pinned: 'good',
  served: 'good',
  settled: 'good',
  signs: 'good',
  cosigns: 'good',
  pending: 'warn',
  suspended: 'warn',
  suspend: 'warn',
  SUSPEND: 'warn',
  invited: 'warn',
  unconfirmed: 'warn',
  changed: 'warn',
  retired: 'warn',
  frozen: 'bad',
  revoked: 'bad',
  denied: 'bad',
  rejected: 'bad',
  failed: 'bad',
  BLOCK: 'bad',
  block: 'bad',
  compromised: 'bad',
};

/** A status in a word and a colour; the word alone is enough. */
export function Badge({ value }: { readonly value: string }): ReactNode {
  return (
    <span className={`badge ${tones[value] ?? ''}`}>
      <span className="dot" aria-hidden="true" />
      {words(value)}
    </span>
  );
}

export const Tier = ({ tier }: { readonly tier: string }): ReactNode => (
  <span className="badge accent" title="Trust tier: L1 lowest, L3 highest">
    {tier}
  </span>
);
