import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { PermissionKey } from '../shared/model/permission.ts';

/** A method that a gate decides on, besides `tools/call`, whose permission is that of the tool. */
export interface GuardedMethod {
  readonly permission: PermissionKey;
  /** The member of the params that says what is asked for. Null: none does. */
  readonly subject: string | null;
  /** For the person who approves. */
  readonly title: string;
  /** Members that a reader must not find under another spelling. */
  readonly members: readonly string[];
}

const method = (
  permission: string,
  title: string,
  subject: string | null,
  members: readonly string[],
): GuardedMethod => ({ permission: permission as PermissionKey, title, subject, members });

/** What a client asks of a server (contract §16). */
export const clientMethods: ReadonlyMap<string, GuardedMethod> = new Map([
  ['resources/read', method('resources:read', 'Read the resource', 'uri', ['uri'])],
  ['resources/directory/read', method('resources:read', 'Read the directory', 'uri', ['uri'])],
  ['resources/subscribe', method('resources:subscribe', 'Follow the resource', 'uri', ['uri'])],
  ['prompts/get', method('prompts:get', 'Get the prompt', 'name', ['name', 'arguments'])],
  ['completion/complete', method('completion:complete', 'Complete a value', null, ['ref', 'argument'])],
]);

/** What a server asks of a client: its model, and its user. */
export const serverMethods: ReadonlyMap<string, GuardedMethod> = new Map([
  ['sampling/createMessage', method('sampling:create', 'Ask the model of the agent', null, ['messages'])],
  ['elicitation/create', method('elicitation:create', 'Ask the user of the agent', null, ['message'])],
]);

/** Subscribes to resources where it names some (protocol revision 2026-07-28). */
const listen = 'subscriptions/listen';

/** Methods that must not be met in another spelling: what decides on them would not see them. */
export const exactMethods: readonly string[] = [
  'tools/call',
  'tools/list',
  listen,
  ...clientMethods.keys(),
  ...serverMethods.keys(),
];

/** Null: the message passes undecided. */
export function guardedMethod(
  methods: ReadonlyMap<string, GuardedMethod>,
  { method: name, params }: JsonObject,
): GuardedMethod | null {
  if (typeof name !== 'string') return null;
  if (name === listen && methods === clientMethods) {
    return /"resourceSubscriptions"/i.test(JSON.stringify(params ?? null))
      ? (clientMethods.get('resources/subscribe') ?? null)
      : null;
  }
  return (
    methods.get(name) ??
    methods.get(exactMethods.find((each) => each.toLowerCase() === name.toLowerCase()) ?? '') ??
    null
  );
}

/** Text of the subject; empty where the params have none. */
export function subjectOf({ subject }: GuardedMethod, params: unknown): string {
  const value = subject !== null && isJsonObject(params) ? params[subject] : null;
  return typeof value === 'string' ? value : '';
}
