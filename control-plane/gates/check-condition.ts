import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { allReadsOf } from '../../shared/decision/compile-conditions.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { Gate } from '../../shared/model/gate.ts';
import { type PermissionKey, permissionArea } from '../../shared/model/permission.ts';
import {
  type ConditionCheck,
  type ConditionCheckBody,
  type ConditionWarning,
  parseConditionCheck,
} from '../../shared/wire/api/conditions.ts';
import type { Database } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import { pathId } from '../http/path-id.ts';
import { readPinnedTools } from '../mcp-pins/pin-store.ts';
import { findGate } from './gate-store.ts';

/** `POST /conditions/check`: the judgement of a write, without one. Throws `invalid_request` as it does. */
export async function checkCondition(
  sql: Database,
  caller: Caller,
  body: ConditionCheckBody,
): Promise<ConditionCheck> {
  const condition = parseConditionCheck(body);
  const reads = allReadsOf([condition]);
  const { gate_id: named = null } = body;
  if (named === null) return { reads: [...reads], warnings: [] };
  const gate = await findGate(sql, caller, pathId('gate', named, 'gate_not_found'));
  if (gate === null) throw new ApiError('gate_not_found', { param: 'gate_id' });
  const { permissions } = condition;
  const tools = await readPinnedTools(sql, gate.gateId);
  return {
    reads: [...reads],
    warnings: [
      ...unknownPermissions(gate, permissions ?? []),
      ...(permissions ?? [null]).flatMap((permission) => unknownMembers(tools, permission, reads)),
    ],
  };
}

/** A catalog names all that a gate grants: of anything else the condition is asked of no request. */
function unknownPermissions(
  { catalogTerms }: Gate,
  permissions: readonly PermissionKey[],
): readonly ConditionWarning[] {
  if (catalogTerms === null) return [];
  const offered = [...catalogTerms.keys()];
  return permissions
    .filter((permission) => !offered.some((key) => isOf(key, permission)))
    .map((permission) => ({
      permission,
      path: null,
      message: `The catalog of the gate has no ${permission}: no request for it passes.`,
    }));
}

/** Whether a permission is this one, or of this area. Null: any. */
const isOf = (key: string, permission: PermissionKey | null): boolean =>
  permission === null ||
  key === permission ||
  (permission.endsWith(':*') && key.startsWith(`${permissionArea(permission)}:`));

const ofArguments = '/request/arguments/';

/** Members of `request.arguments` that no pinned tool of the permission takes. */
function unknownMembers(
  tools: readonly { readonly tool: string; readonly definition: string }[],
  permission: PermissionKey | null,
  reads: readonly string[],
): readonly ConditionWarning[] {
  const schemas = tools
    .filter(({ tool }) => isOf(`tools:${tool.toLowerCase()}`, permission))
    .map(({ definition }) => (JSON.parse(definition) as { readonly inputSchema?: unknown }).inputSchema);
  if (schemas.length === 0) return [];
  return reads
    .filter((path) => path.startsWith(ofArguments))
    .filter((path) => {
      const names = path.slice(ofArguments.length).split('/');
      const steps = names.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
      return !schemas.some((schema) => mayHave(schema, steps));
    })
    .map((path) => ({
      permission,
      path,
      message: `No pinned tool${permission === null ? '' : ` of ${permission}`} has ${path.slice(1).replaceAll('/', '.')} in its input schema.`,
    }));
}

/** Keywords by which a schema may have members that its `properties` do not name. */
const elsewhere = ['$ref', 'allOf', 'anyOf', 'oneOf', 'if', 'patternProperties', 'dependentSchemas'];

/** Whether a value of the schema may have the member, as far as `properties` tell. */
function mayHave(schema: unknown, [name, ...rest]: readonly string[]): boolean {
  if (name === undefined || !isJsonObject(schema)) return true;
  const { properties, additionalProperties } = schema;
  if (elsewhere.some((keyword) => Object.hasOwn(schema, keyword)) || !isJsonObject(properties)) return true;
  if (Object.hasOwn(properties, name)) return mayHave(properties[name], rest);
  return isJsonObject(additionalProperties) || additionalProperties === true;
}
