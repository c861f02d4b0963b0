import { canonicalJson } from '../../crypto/canonical-json.ts';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import type { AuthzenVocabulary, VocabularyResource } from '../../model/authzen-vocabulary.ts';
import type { PermissionKey } from '../../model/permission.ts';
import type { Entities } from './authzen.ts';

type Properties = Readonly<Record<string, unknown>>;

/**
 * An evaluation in the words of an account's vocabulary, as one of a gate and a permission. The resource's
 * own type and id become `resource_type` and `resource_id` of the request. Throws for words that are not in
 * the vocabulary.
 */
export function translateEntities(vocabulary: AuthzenVocabulary, entities: Entities): Entities {
  const { action, resource } = entities;
  if (resource.type === 'gate') return entities;
  const known = findResource(vocabulary, resource);
  if (known === null) {
    if (vocabulary.resources.some(({ type }) => type === resource.type))
      throw new ApiError('gate_not_found', { param: 'resource.id', message: noGateFor });
    throw invalidRequest(
      'resource.type',
      'resource.type must be gate, or a type of your AuthZEN vocabulary.',
    );
  }
  const translated = translateResource(known, resource);
  const permission = permissionOf(
    vocabulary,
    { type: resource.type, properties: translated.properties },
    action,
  );
  return { ...entities, action: { ...action, name: permission ?? action.name }, resource: translated };
}

const noGateFor = 'No gate decides about this resource: add it to your AuthZEN vocabulary.';

export const findResource = (
  { resources }: AuthzenVocabulary,
  asked: { readonly type: string; readonly id: string },
): VocabularyResource | null =>
  resources.find(({ type, id }) => type === asked.type && (id === null || id === asked.id)) ?? null;

/** The gate with the properties of the resource: what is known of it, and what is said of it now. */
export const translateResource = (
  { type, gateId, properties }: VocabularyResource,
  asked: { readonly id: string; readonly properties?: Properties },
) => ({
  type: 'gate',
  id: gateId,
  properties: { ...properties, ...asked.properties, resource_type: type, resource_id: asked.id },
});

/** Null: the vocabulary has no word for this action, so it may be a permission already. */
export const permissionOf = (
  { actions }: AuthzenVocabulary,
  resource: { readonly type: string; readonly properties: Properties },
  action: { readonly name: string; readonly properties?: Properties },
): PermissionKey | null =>
  actions.find(
    ({ resourceType, name, when }) =>
      resourceType === resource.type &&
      name === action.name &&
      hasAll(action.properties ?? {}, when.action) &&
      hasAll(resource.properties, when.resource),
  )?.permissionKey ?? null;

const hasAll = (properties: Properties, demanded: Properties): boolean =>
  Object.entries(demanded).every(
    ([name, value]) =>
      Object.hasOwn(properties, name) && canonicalJson(properties[name]) === canonicalJson(value),
  );
