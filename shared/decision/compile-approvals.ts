import type { Constraints } from '../model/constraints.ts';
import type { MicroUsd } from '../model/money.ts';

/** When a gate or a passport requires an approval. */
export interface CompiledApprovalRule {
  readonly aboveMicroUsd: MicroUsd | null;
  /** A request without an amount is blocked, because it may exceed `aboveMicroUsd`. */
  readonly needsAmount: boolean;
  /** Keys, or whole areas (`orders:*`). Null: none, which saves building an area to look it up. */
  readonly permissions: ReadonlySet<string> | null;
  readonly expiresInMs: number;
}

export function compileApprovals({
  approvals: rule,
  spendLimits,
}: Pick<Constraints, 'approvals' | 'spendLimits'>): CompiledApprovalRule | null {
  if (rule === null) return null;
  return {
    aboveMicroUsd: rule.aboveMicroUsd,
    needsAmount: rule.aboveMicroUsd !== null && spendLimits?.unpriced !== 'permit',
    permissions: rule.permissions.length === 0 ? null : new Set(rule.permissions),
    expiresInMs: rule.expiresInMs,
  };
}
