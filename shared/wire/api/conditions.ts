import { type Static, Type } from 'typebox';
import type { ConditionFault } from '../../condition/check-condition.ts';
import { type CheckedForm, parseForm } from '../../condition/form.ts';
import { conditionLimits } from '../../condition/limits.ts';
import { allReadsOf, faultOf, formsOf } from '../../decision/compile-conditions.ts';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import { type Condition, conditionIdPattern, conditionOutcomes } from '../../model/condition.ts';
import { limits } from '../../model/limits.ts';
import {
  isGrantablePermission,
  type PermissionKey,
  permissionCharsMax,
  permissionsPerPassportMax,
} from '../../model/permission.ts';
import { closed, nullable, plainText } from './fields.ts';

const orAbsent = <Schema extends Parameters<typeof nullable>[0]>(schema: Schema) =>
  Type.Optional(nullable(schema));

/** One of `constraints.conditions` (contract §4). */
export const ConditionBody = closed({
  id: Type.String({ pattern: conditionIdPattern.source }),
  require: Type.String({ minLength: 1, maxLength: conditionLimits.sourceBytesMax }),
  permissions: orAbsent(
    Type.Array(Type.String({ maxLength: permissionCharsMax }), {
      minItems: 1,
      maxItems: permissionsPerPassportMax,
    }),
  ),
  otherwise: orAbsent(Type.Enum(conditionOutcomes)),
  message: orAbsent(plainText({ minLength: 1, maxLength: limits.conditionMessageCharsMax })),
});
export type ConditionBody = Static<typeof ConditionBody>;

/** `POST /conditions/check` */
export const ConditionCheckBody = closed({
  require: ConditionBody.properties.require,
  permissions: ConditionBody.properties.permissions,
  /** The gate that it is for, whose catalog and pinned tools are looked at. */
  gate_id: orAbsent(Type.String()),
});
export type ConditionCheckBody = Static<typeof ConditionCheckBody>;

const ConditionWarning = Type.Object({
  /** Of which permission it is said; null: of all. */
  permission: nullable(Type.String()),
  /** Of what the condition reads; null: it is about the permission. */
  path: nullable(Type.String()),
  message: Type.String(),
});
export type ConditionWarning = Static<typeof ConditionWarning>;

/** `POST /conditions/check` */
export const ConditionCheck = Type.Object({
  /** JSON pointers to what it reads: `/request/…`, `/passport/…`, `/claims/…` or `/user`. */
  reads: Type.Array(Type.String()),
  /** Members that no pinned tool has, and permissions that the catalog lacks. */
  warnings: Type.Array(ConditionWarning),
});
export type ConditionCheck = Static<typeof ConditionCheck>;

export const Conditions = Type.Array(ConditionBody, { maxItems: limits.conditionsMax });

/** Reads them, and leaves their expressions to `refuseFaultyConditions`: those of a row are sound. */
export function parseConditions(given: readonly ConditionBody[], param: string): readonly Condition[] {
  const ids = new Set<string>();
  return given.map((each, index) => {
    const at = `${param}.${index}`;
    if (ids.has(each.id))
      throw invalidRequest(`${at}.id`, `${at}.id is that of another condition before it.`);
    ids.add(each.id);
    return {
      id: each.id,
      require: each.require,
      permissions: readPermissions(each.permissions ?? null, `${at}.permissions`),
      otherwise: each.otherwise ?? 'block',
      message: each.message ?? null,
    };
  });
}

/** Names, or whole areas. Null: every request. */
function readPermissions(given: readonly string[] | null, param: string): readonly PermissionKey[] | null {
  if (given === null) return null;
  const keys = given.map((text, index) => {
    if (isGrantablePermission(text)) return text;
    throw invalidRequest(
      `${param}.${index}`,
      `${param}.${index} must be <area>:<action> or <area>:*, in lower case.`,
    );
  });
  return [...new Set(keys)];
}

export const renderCondition = (condition: Condition): ConditionBody => ({
  id: condition.id,
  require: condition.require,
  ...(condition.permissions === null ? {} : { permissions: [...condition.permissions] }),
  ...(condition.otherwise === 'block' ? {} : { otherwise: condition.otherwise }),
  ...(condition.message === null ? {} : { message: condition.message }),
});

/** The checked forms, as they stand beside conditions in the feed. */
export const renderForms = (
  conditions: readonly Condition[],
): { readonly condition_forms?: readonly CheckedForm[] } =>
  conditions.length === 0 ? {} : { condition_forms: formsOf(conditions) };

/** Forms of the feed. None where this version does not know one: they are made of the expressions. */
export function readForms(given: readonly unknown[] = []): readonly CheckedForm[] {
  const forms = given.map((each) => parseForm(each));
  return forms.every((form) => form !== null) ? forms : [];
}

/**
 * Throws `invalid_request` for the first of them whose expression is not sound, with its place in it, and for
 * more facts than a record can name. What a caller writes passes here before it is stored or signed.
 */
export function refuseFaultyConditions(conditions: readonly Condition[], param: string): void {
  for (const [index, { require: source }] of conditions.entries()) {
    const fault = faultOf(source);
    if (fault !== null) throw faultyCondition(source, fault, `${param}[${index}].require`);
  }
  const facts = allReadsOf(conditions).length;
  if (facts > limits.carriedFactsMax)
    throw invalidRequest(
      param,
      `${param} read ${facts} different members, of which a record can name ${limits.carriedFactsMax}.`,
    );
}

/** Throws `invalid_request` for an expression that is not sound. */
export function parseConditionCheck({ require: source, permissions = null }: ConditionCheckBody): Condition {
  const fault = faultOf(source);
  if (fault !== null) throw faultyCondition(source, fault, 'require');
  return {
    ...{ id: 'checked', require: source, otherwise: 'block', message: null },
    permissions: readPermissions(permissions, 'permissions'),
  };
}

/** Shows the line with a caret below the place, as compilers do. */
function faultyCondition(source: string, { line, column, message }: ConditionFault, param: string): ApiError {
  const text = source.split('\n')[line - 1] ?? '';
  const from = Math.max(0, column - 1 - shownChars);
  const shown = [...text]
    .slice(from, column - 1 + shownChars)
    .join('')
    .replaceAll('\t', ' ');
  return new ApiError('invalid_request', {
    param,
    message: `${param} is faulty in line ${line}, column ${column}:\n  ${shown}\n  ${' '.repeat(column - 1 - from)}^ ${message}.`,
    details: { line, column, message },
  });
}

/** Of a long line, so much is shown before and after the place. */
const shownChars = 60;
