import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { type AuthzenVocabulary, vocabularyEntriesMax } from '../../model/authzen-vocabulary.ts';
import { isId } from '../../model/ids.ts';
import {
  isRequestablePermission,
  permissionCharsMax,
  requestablePermissionPattern,
} from '../../model/permission.ts';
import { closed, FreeForm, Name } from './fields.ts';

const Resource = closed({
  type: Name,
  id: Type.Optional(Name),
  gate_id: Type.String(),
  properties: Type.Optional(FreeForm),
});

const Action = closed({
  resource_type: Name,
  name: Name,
  permission_key: Type.String({
    maxLength: permissionCharsMax,
    pattern: requestablePermissionPattern.source,
  }),
  when: Type.Optional(closed({ action: Type.Optional(FreeForm), resource: Type.Optional(FreeForm) })),
});

/** `PUT /authzen/vocabulary` (contract §16), and its answer. */
export const Vocabulary = closed({
  resources: Type.Array(Resource, { maxItems: vocabularyEntriesMax }),
  actions: Type.Array(Action, { maxItems: vocabularyEntriesMax }),
});
export type Vocabulary = Static<typeof Vocabulary>;

/** Throws `invalid_request` naming the entry at fault. */
export function parseVocabulary({ resources, actions }: Vocabulary): AuthzenVocabulary {
  return {
    resources: resources.map(({ type, id = null, gate_id: gateId, properties = {} }, place) => {
      const at = `resources.${place}`;
      if (type === 'gate')
        throw invalidRequest(`${at}.type`, 'A gate needs no other word: name another type.');
      if (!isId('gate', gateId)) throw invalidRequest(`${at}.gate_id`, `${at}.gate_id is no id of a gate.`);
      return { type, id, gateId, properties };
    }),
    actions: actions.map(({ resource_type, name, permission_key: key, when }, place) => {
      const at = `actions.${place}.permission_key`;
      if (!isRequestablePermission(key)) throw invalidRequest(at, `${at} is no permission.`);
      const { action = {}, resource = {} } = when ?? {};
      return { resourceType: resource_type, name, permissionKey: key, when: { action, resource } };
    }),
  };
}

/** As it is published and stored. */
export const renderVocabulary = ({ resources, actions }: AuthzenVocabulary): Vocabulary => ({
  resources: resources.map(({ type, id, gateId, properties }) => ({
    type,
    ...(id !== null && { id }),
    gate_id: gateId,
    ...(Object.keys(properties).length > 0 && { properties }),
  })),
  actions: actions.map(({ resourceType, name, permissionKey, when: { action, resource } }) => {
    const when = {
      ...(Object.keys(action).length > 0 && { action }),
      ...(Object.keys(resource).length > 0 && { resource }),
    };
    return {
      resource_type: resourceType,
      name,
      permission_key: permissionKey,
      ...(Object.keys(when).length > 0 && { when }),
    };
  }),
});
