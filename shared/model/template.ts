import type { Constraints } from './constraints.ts';
import type { TemplateId } from './ids.ts';
import type { UnixMillis } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

/**
 * What a new gate may start from. It is copied into the gate; changing one never changes the other (contract
 * §4).
 */
export interface Template {
  /** A slug for the built-in ones, `tmpl_` for the accounts' own. */
  readonly templateId: TemplateId | BuiltInTemplateId;
  readonly name: string;
  readonly description: string | null;
  /** Null: whoever makes a gate of it says which. */
  readonly trustLevel: TrustTier | null;
  readonly constraints: Constraints;
  readonly isBuiltIn: boolean;
  readonly createdAtMs: UnixMillis;
}

export type BuiltInTemplateId = 'read-only-research' | 'payments-low-risk' | 'payments-approval';
