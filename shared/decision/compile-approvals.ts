import type { ApprovalRule } from '../model/constraints.ts';
import type { MicroUsd } from '../model/money.ts';

/** When a gate or a passport wants somebody to be asked. */
export interface CompiledApprovalRule {
  readonly aboveMicroUsd: MicroUsd | null;
  /** Keys, or whole areas (`orders:*`). Null: none, and no area has to be spelled out to look for it. */
  readonly permissions: ReadonlySet<string> | null;
  readonly expiresInMs: number;
}

export const compileApprovals = (rule: ApprovalRule | null): CompiledApprovalRule | null =>
  rule === null
    ? null
    : { ...rule, permissions: rule.permissions.length === 0 ? null : new Set(rule.permissions) };
