/**
 * What OCSF 1.8.0 (https://schema.ocsf.io, Open Cybersecurity Schema Framework, Apache-2.0) says of the
 * classes and objects that the service writes: members with their type, what is required, and the numbers of
 * each enum. Written down by hand from `events/`, `objects/`, `profiles/security_control.json` and
 * `dictionary.json` of that version, with those members alone that a record may have.
 */

/** A scalar, an object by its name, or a list of either. */
export type OcsfType = 'string' | 'integer' | 'long' | 'timestamp' | 'boolean' | 'any' | { of: string };

export interface OcsfMember {
  readonly type: OcsfType;
  readonly isList?: true;
  readonly isRequired?: true;
  /** Captions by number. `sibling`: the member that has the caption as text. */
  readonly enum?: Readonly<Record<number, string>>;
  readonly sibling?: string;
}

export interface OcsfShape {
  readonly members: Readonly<Record<string, OcsfMember>>;
  readonly atLeastOne?: readonly string[];
}

const string = { type: 'string' } as const;
const requiredString = { type: 'string', isRequired: true } as const;
const object = (of: string) => ({ type: { of } }) as const;
const required = (of: string) => ({ type: { of }, isRequired: true }) as const;
const choice = (sibling: string, values: Readonly<Record<number, string>>) =>
  ({ type: 'integer', enum: { 0: 'Unknown', ...values, 99: 'Other' }, sibling }) as const;

const baseEvent = {
  time: { type: 'timestamp', isRequired: true },
  activity_name: string,
  category_name: string,
  class_name: string,
  type_name: string,
  severity: string,
  severity_id: {
    ...choice('severity', {
      1: 'Informational',
      2: 'Low',
      3: 'Medium',
      4: 'High',
      5: 'Critical',
      6: 'Fatal',
    }),
    isRequired: true,
  },
  message: string,
  metadata: required('metadata'),
  status: string,
  status_id: choice('status', { 1: 'Success', 2: 'Failure' }),
  status_code: string,
  unmapped: { type: 'any' },
} as const;

/** `class_uid` has one value, and the type is the class times 100 plus the activity. */
const classified = (
  [category, categoryName]: readonly [number, string],
  [uid, name]: readonly [number, string],
  activities: Readonly<Record<number, string>>,
) => ({
  activity_id: { ...choice('activity_name', activities), isRequired: true as const },
  category_uid: {
    type: 'integer' as const,
    enum: { [category]: categoryName },
    sibling: 'category_name',
    isRequired: true as const,
  },
  class_uid: {
    type: 'integer' as const,
    enum: { [uid]: name },
    sibling: 'class_name',
    isRequired: true as const,
  },
  type_uid: {
    type: 'long' as const,
    enum: Object.fromEntries(
      Object.entries({ 0: 'Unknown', ...activities, 99: 'Other' }).map(([id, activity]) => [
        uid * 100 + Number(id),
        `${name}: ${activity}`,
      ]),
    ),
    sibling: 'type_name',
    isRequired: true as const,
  },
});

const securityControl = {
  action: string,
  action_id: choice('action', { 1: 'Allowed', 2: 'Denied', 3: 'Observed', 4: 'Modified' }),
  disposition: string,
  disposition_id: choice('disposition', { 1: 'Allowed', 2: 'Blocked' }),
  policy: object('policy'),
} as const;

/** By `class_uid`. */
export const ocsfClasses: Readonly<Record<number, OcsfShape>> = {
  0: { members: { ...baseEvent, ...classified([0, 'Uncategorized'], [0, 'Base Event'], {}) } },
  6003: {
    members: {
      ...baseEvent,
      ...securityControl,
      ...classified([6, 'Application Activity'], [6003, 'API Activity'], {
        1: 'Create',
        2: 'Read',
        3: 'Update',
        4: 'Delete',
      }),
      actor: required('actor'),
      api: required('api'),
      src_endpoint: required('network_endpoint'),
      dst_endpoint: object('network_endpoint'),
      resources: { ...object('resource_details'), isList: true },
    },
  },
};

const entity = ['name', 'uid'];

export const ocsfObjects: Readonly<Record<string, OcsfShape>> = {
  metadata: {
    members: {
      version: requiredString,
      product: required('product'),
      profiles: { ...string, isList: true },
      uid: string,
      log_name: string,
      tenant_uid: string,
      correlation_uid: string,
      labels: { ...string, isList: true },
    },
  },
  product: { members: { name: string, uid: string, vendor_name: string }, atLeastOne: entity },
  actor: {
    members: { app_name: string, app_uid: string },
    atLeastOne: ['process', 'user', 'invoked_by', 'session', 'app_name', 'app_uid'],
  },
  api: { members: { operation: requiredString, service: object('service') } },
  service: { members: { name: string, uid: string }, atLeastOne: entity },
  network_endpoint: {
    members: { name: string, uid: string, domain: string },
    atLeastOne: [
      'ip',
      'uid',
      'name',
      'hostname',
      'svc_name',
      'instance_uid',
      'interface_uid',
      'interface_name',
      'domain',
    ],
  },
  resource_details: {
    members: {
      name: string,
      uid: string,
      type: string,
      role: string,
      role_id: choice('role', { 1: 'Target', 2: 'Actor', 3: 'Affected', 4: 'Related' }),
    },
    atLeastOne: entity,
  },
  policy: {
    members: { name: string, uid: string, type: string, is_applied: { type: 'boolean' } },
    atLeastOne: ['name', 'type', 'uid'],
  },
};
