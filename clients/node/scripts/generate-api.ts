/**
 * Writes the types and the table of operations of the client from the published OpenAPI document. Pure:
 * `test/clients/generated.test.ts` holds the committed file against the result, and writes it with
 * UPDATE_DOCS=1.
 */

/** Where each operation is found in the client, by operationId. An operation that is missing here throws. */
const methods: Readonly<Record<string, string>> = {
  issuePassport: 'passports.issue',
  issuePassportUnattended: 'passports.issueUnattended',
  listPassports: 'passports.list',
  getPassport: 'passports.get',
  verifyPassport: 'passports.verify',
  revokePassport: 'passports.revoke',
  suspendPassport: 'passports.suspend',
  reactivatePassport: 'passports.reactivate',
  suspendOwner: 'owners.suspend',
  reactivateOwner: 'owners.reactivate',
  createGate: 'gates.create',
  listGates: 'gates.list',
  getGate: 'gates.get',
  updateGate: 'gates.update',
  deleteGate: 'gates.delete',
  testGate: 'gates.test',
  startBacktest: 'gates.startBacktest',
  getBacktest: 'gates.getBacktest',
  cancelBacktest: 'gates.cancelBacktest',
  checkCondition: 'gates.checkCondition',
  putShadow: 'gates.putShadow',
  getShadow: 'gates.getShadow',
  deleteShadow: 'gates.deleteShadow',
  getShadowReport: 'gates.getShadowReport',
  promoteShadow: 'gates.promoteShadow',
  discoverGates: 'gates.discover',
  listGatePolicies: 'gates.listPolicies',
  getPolicy: 'gates.getPolicy',
  publishCatalog: 'catalogs.publish',
  getCatalog: 'catalogs.get',
  checkGate: 'decisions.check',
  checkGateBatch: 'decisions.checkBatch',
  enforce: 'decisions.enforce',
  getAuthzenVocabulary: 'authzen.getVocabulary',
  setAuthzenVocabulary: 'authzen.setVocabulary',
  listApprovals: 'approvals.list',
  getApproval: 'approvals.get',
  approveApproval: 'approvals.approve',
  denyApproval: 'approvals.deny',
  undoApproval: 'approvals.undo',
  listMcpPins: 'mcpPins.list',
  getMcpPin: 'mcpPins.get',
  reportMcpTools: 'mcpPins.report',
  acceptMcpPin: 'mcpPins.accept',
  rejectMcpPin: 'mcpPins.reject',
  setPassportWallet: 'passports.setWallet',
  createWallet: 'wallets.create',
  listWallets: 'wallets.list',
  getWallet: 'wallets.get',
  getWalletStatement: 'wallets.statement',
  updateWallet: 'wallets.update',
  freezeWallet: 'wallets.freeze',
  unfreezeWallet: 'wallets.unfreeze',
  deleteWallet: 'wallets.delete',
  createStandingApproval: 'standingApprovals.create',
  listStandingApprovals: 'standingApprovals.list',
  getStandingApproval: 'standingApprovals.get',
  endStandingApproval: 'standingApprovals.end',
  listAttestations: 'attestations.list',
  getAttestation: 'attestations.get',
  getAttestationFacts: 'attestations.getFacts',
  showReceipt: 'attestations.showReceipt',
  reportOutcome: 'outcomes.report',
  getOutcome: 'outcomes.get',
  listOutcomes: 'outcomes.list',
  refundPermit: 'outcomes.refund',
  extendHold: 'holds.extend',
  listHolds: 'holds.list',
  exportAttestations: 'attestations.export',
  getAttestationProof: 'attestations.getProof',
  getRetention: 'attestations.getRetention',
  setRetention: 'attestations.setRetention',
  listAuditEntries: 'audit.list',
  exportAudit: 'audit.export',
  createIssuer: 'issuers.create',
  listIssuers: 'issuers.list',
  getIssuer: 'issuers.get',
  updateIssuer: 'issuers.update',
  revokeSubject: 'issuers.revokeSubject',
  tryToken: 'issuers.tryToken',
  createTemplate: 'templates.create',
  listTemplates: 'templates.list',
  getTemplate: 'templates.get',
  whoAmI: 'apiKeys.whoAmI',
  createApiKey: 'apiKeys.create',
  listApiKeys: 'apiKeys.list',
  getApiKey: 'apiKeys.get',
  rollApiKey: 'apiKeys.roll',
  deleteApiKey: 'apiKeys.delete',
  createAccount: 'accounts.create',
  listAccounts: 'accounts.list',
  getAccount: 'accounts.get',
  updateAccount: 'accounts.update',
  createChannel: 'channels.create',
  listChannels: 'channels.list',
  getChannel: 'channels.get',
  updateChannel: 'channels.update',
  deleteChannel: 'channels.delete',
  testChannel: 'channels.test',
  createWebhook: 'webhooks.create',
  listWebhooks: 'webhooks.list',
  getWebhook: 'webhooks.get',
  updateWebhook: 'webhooks.update',
  deleteWebhook: 'webhooks.delete',
  rollWebhookSecret: 'webhooks.rollSecret',
  testWebhook: 'webhooks.test',
  recoverWebhook: 'webhooks.recover',
  listDeliveries: 'webhooks.listDeliveries',
  resendDelivery: 'webhooks.resendDelivery',
  getJwks: 'signingKeys.jwks',
  rotateSigningKey: 'signingKeys.rotate',
  revokeSidecarKey: 'signingKeys.revokeSidecarKey',
  getRevokedSidecarKeys: 'signingKeys.revokedSidecarKeys',
  getLiveness: 'service.live',
  getReadiness: 'service.ready',
  getMetrics: 'service.metrics',
};

/** Schemas whose own name is that of a global of JavaScript, or of a type that the client widens. */
const renamed: Readonly<Record<string, string>> = {
  Error: 'ErrorBody',
  Request: 'DecisionRequest',
  Decision: 'ServiceDecision',
};

export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
}
export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}
export interface Media {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}
export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags?: readonly string[];
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: Media & { readonly required?: boolean };
  readonly responses: Readonly<Record<string, Media>>;
}
/** The part of an OpenAPI 3.1 document that is read here. */
export interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** Tags of what the console asks, most of which needs the cookie of a browser, and of what providers push. */
const ofConsole: ReadonlySet<string> = new Set(['People', 'Statistics', 'Shared Signals']);

/**
 * The part of the document that programs use. What is for the console is left out, with the schemas that
 * only it speaks of, because the package has a bound of its size.
 */
export function forPrograms(document: ApiDocument): ApiDocument {
  const paths = Object.fromEntries(
    Object.entries(document.paths).map(([path, item]) => [
      path,
      Object.fromEntries(
        Object.entries(item).filter(([, { tags }]) => tags?.some((tag) => ofConsole.has(tag)) !== true),
      ),
    ]),
  );
  const { schemas } = document.components;
  const whole = referredFrom(document.paths, schemas);
  const used = referredFrom(paths, schemas);
  const kept = Object.entries(schemas).filter(([name]) => used.has(name) || !whole.has(name));
  const withCodes = kept.map(([name, schema]): [string, Schema] => [name, withoutBrowserCodes(schema)]);
  return {
    ...document,
    paths,
    components: { ...document.components, schemas: Object.fromEntries(withCodes) },
  };
}

/** Error codes that a program with a key is never answered. */
const browserCodes: ReadonlySet<unknown> = new Set([
  'login_failed',
  'totp_required',
  'cross_site_request',
  'user_not_found',
  'session_not_found',
  'passkey_not_found',
  'invitation_not_found',
  'email_conflict',
  'last_owner',
  'user_state_conflict',
  'approval_already_answered',
  'passkey_required',
  'passkey_refused',
]);

function withoutBrowserCodes(schema: Schema): Schema {
  const { enum: values, properties } = schema;
  return {
    ...schema,
    ...(values === undefined ? {} : { enum: values.filter((value) => !browserCodes.has(value)) }),
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, each]) => [name, withoutBrowserCodes(each)]),
          ),
        }),
  };
}

/** The names of the schemas to which this leads, directly and by others. */
function referredFrom(from: unknown, schemas: Readonly<Record<string, Schema>>): ReadonlySet<string> {
  const found = new Set<string>();
  const open: unknown[] = [from];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const [, name = ''] of JSON.stringify(next).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      if (found.has(name)) continue;
      found.add(name);
      open.push(schemas[name]);
    }
  }
  return found;
}

interface Method {
  readonly resource: string;
  readonly declaration: string;
  readonly entry: string;
}

/** The text of `src/generated/api.ts`. */
export function generateApi(published: ApiDocument): string {
  const document = forPrograms(published);
  const schemas = Object.entries(document.components.schemas).map(([name, schema]) => declare(name, schema));
  const found = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([verb, operation]) => methodOf(document, path, verb, operation)),
  );
  const resources = [...new Set(Object.values(methods).map((place) => place.split('.')[0] ?? ''))];
  const interfaces = resources.map((resource) => {
    const own = found.filter((method) => method.resource === resource);
    return `export interface ${capital(resource)}Resource {\n${own.map(({ declaration }) => declaration).join('\n')}\n}\n`;
  });
  const tables = resources.map((resource) => {
    const own = found.filter((method) => method.resource === resource);
    return `  ${resource}: {\n${own.map(({ entry }) => entry).join('\n')}\n  },`;
  });
  const { lists, texts } = nameLists([...schemas, ...interfaces]);
  return [
    '// Written by scripts/generate-api.ts from docs/openapi.json. Do not edit.\n',
    "import type { ByteStream, CallOptions, CreateOptions, List } from '../call-options.ts';\n",
    ...lists,
    ...texts,
    '/** Every resource of the control plane; each operation of the API is one method. */',
    `export interface Resources {\n${resources.map((name) => `  readonly ${name}: ${capital(name)}Resource;`).join('\n')}\n}\n`,
    '/** @internal Method, path, whether there is a body and a query, and what is special about it. */',
    `export const resources = {\n${tables.join('\n')}\n} as const;\n`,
  ].join('\n');
}

/** Lists of words that are named for another member than their first. */
const listNames: Readonly<Record<string, string>> = {
  code: 'DeliveryFault',
  guardrails_evaluated: 'CheckName',
};

/** Long lists of words that come more than once are types: the package has a bound of its size. */
function nameLists(texts: readonly string[]): {
  readonly lists: readonly string[];
  readonly texts: readonly string[];
} {
  const members = /(\w+)\??: (?:readonly )?\(?('[\w.:]+'(?: \| '[\w.:]+'){9,})/g;
  const found = [...texts.join('\n').matchAll(members)].map(([, member = '', list = '']) => ({
    member,
    list,
  }));
  const names = new Map<string, string>();
  for (const { member, list } of found) {
    if (names.has(list) || found.filter((each) => each.list === list).length === 1) continue;
    const name = listNames[member] ?? `${capital(camel(member.replace(/s$/, '')))}Name`;
    if ([...names.values()].includes(name)) throw new Error(`generate-api.ts: two lists would be ${name}`);
    names.set(list, name);
  }
  const byLength = [...names].sort(([one], [other]) => other.length - one.length);
  return {
    lists: [...names].map(([list, name]) => `export type ${name} = ${list};\n`),
    texts: texts.map((text) =>
      byLength.reduce(
        (named, [list, name]) => named.replaceAll(`(${list})`, name).replaceAll(list, name),
        text,
      ),
    ),
  };
}

function methodOf(document: ApiDocument, path: string, verb: string, operation: Operation): Method {
  const place = methods[operation.operationId];
  if (place === undefined)
    throw new Error(`operation ${operation.operationId} has no place in generate-api.ts`);
  const [resource = '', name = ''] = place.split('.');
  const parameters = operation.parameters ?? [];
  const query = parameters.filter((parameter) => parameter.in === 'query');
  const headers = new Set(parameters.flatMap((each) => (each.in === 'header' ? [each.name] : [])));
  const body = operation.requestBody;
  const answer = answerOf(document, operation);
  const creates = headers.has('Idempotency-Key');
  const own = [
    ...(headers.has('If-Match') ? ['readonly ifMatch?: string'] : []),
    ...(headers.has('If-None-Match') ? ['readonly ifNoneMatch?: string'] : []),
  ];
  const base = creates ? 'CreateOptions' : 'CallOptions';
  const options = own.length === 0 ? base : `${base} & { ${own.join('; ')} }`;
  const isNeeded = query.some(({ required }) => required === true);
  const args = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, parameter = '']) => `${camel(parameter)}: string`),
    ...(body === undefined
      ? []
      : [`body${body.required === true ? '' : '?'}: ${typeOf(jsonOf(body) ?? {}, 2)}`]),
    ...(query.length === 0 ? [] : [`query${isNeeded ? '' : '?'}: ${queryType(query)}`]),
    `options?: ${options}`,
  ];
  // Of the description the scope alone, which is its last paragraph: the package has a bound of its size.
  const scope = operation.description?.split('\n\n').at(-1) ?? '';
  const text = /^(?:Needs|Public)/.test(scope) ? `${operation.summary}. ${scope}` : operation.summary;
  const isCached = !creates && headers.has('If-None-Match');
  const result = isCached ? `${answer.type} | null` : answer.type;
  const returned = answer.kind === 'list' ? result : `Promise<${result}>`;
  const flags = [
    ...(body === undefined ? [] : ['body']),
    ...(query.length === 0 ? [] : ['query']),
    ...(creates ? ['creates'] : []),
    ...(answer.kind === 'json' ? [] : [answer.kind]),
  ];
  return {
    resource,
    declaration: `${comment(text, 2)}  ${name}(${args.join(', ')}): ${returned};`,
    entry: `    ${name}: ['${verb.toUpperCase()}', '${path}', '${flags.join(' ')}'],`,
  };
}

/** `stream`: handed over as it arrives; `status`: the same body for 200 and 503. */
type AnswerKind = 'json' | 'list' | 'stream' | 'text' | 'status';

function answerOf(
  document: ApiDocument,
  { responses }: Operation,
): { readonly kind: AnswerKind; readonly type: string } {
  const contents = (responses['200'] ?? responses['201'] ?? responses['202'])?.content ?? {};
  if ('application/x-ndjson' in contents) return { kind: 'stream', type: 'ByteStream' };
  const schema = contents['application/json']?.schema;
  if (schema === undefined) return { kind: 'text', type: 'string' };
  const type = typeOf(schema, 2);
  const members = document.components.schemas[type]?.properties ?? {};
  const list = ['items', 'attestations', 'entries', 'results'].find(
    (name) => name in members && ('next_cursor' in members || 'offset' in members),
  );
  if (list !== undefined) {
    const item = typeOf(members[list]?.items ?? {}, 2);
    return {
      kind: 'list',
      type: `List<${item.startsWith('{') ? `${type}['${list}'][number]` : item}, ${type}>`,
    };
  }
  return { kind: jsonOf(responses['503'] ?? {}) === null ? 'json' : 'status', type };
}

const jsonOf = ({ content }: Media): Schema | null => content?.['application/json']?.schema ?? null;

/** Operations are named by text: the list of all would take more room in the package than it helps. */
function withoutOperations({ name, schema }: Parameter): Schema {
  const { enum: _, ...text } = schema;
  return name === 'operation' ? text : schema;
}

const queryType = (parameters: readonly Parameter[]): string =>
  members(
    parameters.map((each) => ({
      name: each.name,
      isOptional: each.required !== true,
      schema: {
        ...withoutOperations(each),
        ...(each.description === undefined ? {} : { description: each.description }),
      },
    })),
    4,
    2,
  );

function declare(name: string, schema: Schema): string {
  const type = typeOf(schema, 0);
  const words = schema.description === undefined ? '' : comment(schema.description, 0);
  return `${words}${type.startsWith('{') && !type.includes('} & ') ? `export interface ${typeName(name)} ${type}` : `export type ${typeName(name)} = ${type};`}\n`;
}

function typeOf(schema: Schema, indent: number): string {
  if (schema.$ref !== undefined) return typeName(schema.$ref.replace('#/components/schemas/', ''));
  if (schema.const !== undefined) return literal(schema.const);
  if (schema.enum !== undefined) return union(schema.enum.map(literal));
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives !== undefined) return union(alternatives.map((each) => typeOf(each, indent)));
  const types = schema.type === undefined ? [] : [schema.type].flat();
  return types.length === 0 ? 'unknown' : union(types.map((type) => plainType(type, schema, indent)));
}

function plainType(type: string, schema: Schema, indent: number): string {
  switch (type) {
    case 'integer':
      return 'number';
    case 'array': {
      const item = typeOf(schema.items ?? {}, indent);
      return item.includes(' ') && !item.startsWith('{') ? `readonly (${item})[]` : `readonly ${item}[]`;
    }
    case 'object': {
      const required = new Set(schema.required);
      const own = Object.entries(schema.properties ?? {}).map(([name, member]) => ({
        name,
        schema: member,
        isOptional: !required.has(name),
      }));
      const isOpen = schema.additionalProperties === true;
      return own.length === 0
        ? 'Readonly<Record<string, unknown>>'
        : members(own, indent + 2, indent, isOpen);
    }
    default:
      return type;
  }
}

/** What members say by their names. */
const selfEvident: ReadonlySet<string> = new Set([
  'Current status.',
  'Maximum number of objects to return.',
  'Number of objects to skip.',
  'Total number.',
  'When it was created.',
]);

function members(
  all: readonly { readonly name: string; readonly schema: Schema; readonly isOptional: boolean }[],
  indent: number,
  outer: number,
  isOpen = false,
): string {
  const pad = ' '.repeat(indent);
  const lines = all.map(
    ({ name, schema, isOptional }) =>
      `${comment(textOf(schema), indent)}${pad}readonly ${/^\w+$/.test(name) ? name : `'${name}'`}${isOptional ? '?' : ''}: ${typeOf(schema, indent)};`,
  );
  if (isOpen) lines.push(`${pad}readonly [name: string]: unknown;`);
  return `{\n${lines.join('\n')}\n${' '.repeat(outer)}}`;
}

const textOf = ({ description = '' }: Schema): string =>
  selfEvident.has(description) || /^Id of the [a-z ]+, `[a-z]+_…`\.$/.test(description) ? '' : description;

const typeName = (schemaName: string): string => renamed[schemaName] ?? schemaName;
const union = (types: readonly string[]): string => [...new Set(types)].join(' | ');
const literal = (value: unknown): string =>
  typeof value === 'string' ? `'${value.replaceAll("'", "\\'")}'` : JSON.stringify(value);
const capital = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);
const camel = (name: string): string =>
  name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

/** A doc comment that wraps at 110 columns; nothing for an empty text. */
function comment(text: string, indent: number): string {
  if (text === '') return '';
  const pad = ' '.repeat(indent);
  const lines = text
    .replaceAll('*/', '* /')
    .split('\n')
    .flatMap((line) => wrap(line, 103 - indent));
  const [only, ...more] = lines;
  if (more.length === 0) return `${pad}/** ${only} */\n`;
  return `${pad}/**\n${lines.map((line) => `${pad} * ${line}`.trimEnd()).join('\n')}\n${pad} */\n`;
}

function wrap(text: string, columns: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && line.length + 1 + word.length > columns) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines;
}
