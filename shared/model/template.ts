import type { Constraints } from './constraints.ts';
import type { TemplateId } from './ids.ts';
import type { UnixMillis } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

/** Start values of a new gate. Copied into the gate, so later changes do not propagate (contract §4). */
export interface Template {
  /** A slug for built-in templates, `tmpl_` for an account's own. */
  readonly templateId: TemplateId | BuiltInTemplateId;
  readonly name: string;
  readonly description: string | null;
  /** Null: the new gate must name it. */
  readonly trustLevel: TrustTier | null;
  readonly constraints: Constraints;
  readonly isBuiltIn: boolean;
  readonly createdAtMs: UnixMillis;
}

export type BuiltInTemplateId = 'read-only-research' | 'payments-low-risk' | 'payments-approval';
