import { type ConditionFault, checkCondition } from '../condition/check-condition.ts';
import { compileForm } from '../condition/compile-form.ts';
import type { CheckedForm } from '../condition/form.ts';
import { readsOf } from '../condition/reads-of.ts';
import type { Evaluate } from '../condition/variables.ts';
import { InvariantError } from '../errors/assert.ts';
import type { Condition } from '../model/condition.ts';

/** A condition, ready to be asked. */
export interface CompiledCondition extends Pick<Condition, 'id' | 'otherwise' | 'message'> {
  /** Keys, or whole areas. Null: it is asked of every request. */
  readonly permissions: ReadonlySet<string> | null;
  readonly evaluate: Evaluate;
  /** JSON pointers, such as `/request/arguments/path`. */
  readonly reads: readonly string[];
  /** Which wallet a passport is in may have to be asked for first. */
  readonly readsWallet: boolean;
}

interface Checked {
  readonly form: CheckedForm;
  readonly evaluate: Evaluate;
  readonly reads: readonly string[];
}

/**
 * By expression: a control plane reads a gate for each decision, and the tokens of an account share theirs.
 * Beyond so many characters it starts over; a tree is some twenty times as long as its text.
 */
const knownCharsMax = 512 * 1024;
let known = new Map<string, Checked>();
let knownChars = 0;

function checked(source: string): Checked | ConditionFault {
  const found = known.get(source);
  if (found !== undefined) return found;
  const made = checkCondition(source);
  if ('message' in made) return made;
  const { form } = made;
  const entry = { form, evaluate: compileForm(form), reads: readsOf(form) };
  if (knownChars + source.length > knownCharsMax) {
    known = new Map();
    knownChars = 0;
  }
  known.set(source, entry);
  knownChars += source.length;
  return entry;
}

/** What is wrong with an expression; null: nothing. */
export function faultOf(source: string): ConditionFault | null {
  const made = checked(source);
  return 'message' in made ? made : null;
}

/** Of expressions that were checked before: throws for one that is faulty. */
function sound({ id, require: source }: Condition): Checked {
  const made = checked(source);
  if (!('message' in made)) return made;
  throw new InvariantError(`the condition ${id} was checked before: ${made.message}`);
}

/** The checked forms of these, in their order. */
export const formsOf = (conditions: readonly Condition[]): readonly CheckedForm[] =>
  conditions.map((each) => sound(each).form);

/** What they read, each once. */
export const allReadsOf = (conditions: readonly Condition[]): readonly string[] => [
  ...new Set(conditions.flatMap((each) => sound(each).reads)),
];

const none: readonly CompiledCondition[] = Object.freeze([]);

/** `forms`: those of the same conditions, if they are at hand. Throws for a faulty one. */
export function compileConditions(
  conditions: readonly Condition[],
  forms: readonly CheckedForm[] = [],
): readonly CompiledCondition[] {
  if (conditions.length === 0) return none;
  return conditions.map((condition, place) => {
    const { id, otherwise, message, permissions } = condition;
    const form = forms[place];
    const { evaluate, reads } =
      form === undefined ? sound(condition) : { evaluate: compileForm(form), reads: readsOf(form) };
    return {
      id,
      otherwise,
      message,
      permissions: permissions === null ? null : new Set(permissions),
      evaluate,
      reads,
      readsWallet: reads.some((path) => '/passport/wallet_id'.startsWith(path)),
    };
  });
}
