import type { GateId } from './ids.ts';
import type { PermissionKey } from './permission.ts';

/**
 * The words of an account's policy enforcement points for what is here a gate and a permission (contract
 * §16). Each list is searched in its order, and the first entry that fits counts.
 */
export interface AuthzenVocabulary {
  readonly resources: readonly VocabularyResource[];
  readonly actions: readonly VocabularyAction[];
}

export interface VocabularyResource {
  readonly type: string;
  /** Null: every id of the type. No search finds those. */
  readonly id: string | null;
  /** Which gate decides about it. */
  readonly gateId: GateId;
  /** What is known of it. A property that an evaluation names counts in place of the one here. */
  readonly properties: Readonly<Record<string, unknown>>;
}

export interface VocabularyAction {
  readonly resourceType: string;
  readonly name: string;
  readonly permissionKey: PermissionKey;
  /** It fits only where the evaluation has all of these properties. */
  readonly when: {
    readonly action: Readonly<Record<string, unknown>>;
    readonly resource: Readonly<Record<string, unknown>>;
  };
}

export const noVocabulary: AuthzenVocabulary = { resources: [], actions: [] };

/** More would not fit into a body of 64 KiB. */
export const vocabularyEntriesMax = 1_000;
