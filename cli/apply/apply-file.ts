import { type Static, type TProperties, Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { channelEvents, channelKinds, channelStatuses } from '../../shared/model/channel.ts';
import { issuerStatuses } from '../../shared/model/issuer.ts';
import { labelNamePattern, labelsMax, labelValueCharsMax } from '../../shared/model/labels.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import { walletStatuses } from '../../shared/model/wallet.ts';
import { webhookEvents, webhookFormats, webhookStatuses } from '../../shared/model/webhook.ts';
import { bodyReader } from '../../shared/wire/api/body.ts';
import { CatalogPublication } from '../../shared/wire/api/catalog.ts';
import { GateConstraints } from '../../shared/wire/api/constraints.ts';
import { closed, Description, Name, nullable, Tier } from '../../shared/wire/api/fields.ts';
import { GateRoutes } from '../../shared/wire/api/gate-routes.ts';
import { IssuerCreation } from '../../shared/wire/api/issuer.ts';
import { TemplateCreation } from '../../shared/wire/api/template.ts';
import { WalletCreation } from '../../shared/wire/api/wallet.ts';
import { type ReadYaml, readYaml } from '../base/read-yaml.ts';
import { KeyText } from './keys-of.ts';
import { targetVariable } from './target-variable.ts';

const Labels = Type.Record(
  Type.String({ pattern: labelNamePattern.source }),
  Type.String({ maxLength: labelValueCharsMax }),
  { maxProperties: labelsMax },
);

const Key = Type.Optional(KeyText);

/** Absent: as it is in the service. */
const IssuerEntry = closed({
  key: Key,
  ...IssuerCreation.properties,
  status: Type.Optional(Type.Enum(issuerStatuses)),
  wallet: Type.Optional(
    nullable(
      Type.String({
        description:
          'Name of a wallet of this file or of the account; null: none. In the place of wallet_id, which takes an id.',
      }),
    ),
  ),
});

const { parent_wallet_id: _parent, ...walletMembers } = WalletCreation.properties;
const WalletEntry = closed({
  key: Key,
  ...walletMembers,
  name: Name,
  parent: Type.Optional(
    nullable(
      Type.String({
        description: 'Name of a wallet of this file or of the account. Absent: it has none above it.',
      }),
    ),
  ),
  labels: Type.Optional(Labels),
  /** Absent: as it is in the service. */
  status: Type.Optional(Type.Enum(walletStatuses)),
});

const orNull = (properties: TProperties): TProperties =>
  Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, Type.Optional(nullable(each))]));

const TemplateEntry = closed({ key: Key, ...TemplateCreation.properties });

const GateEntry = closed({
  key: Key,
  name: Name,
  description: Type.Optional(Description),
  trust_level: Type.Optional(Tier),
  template: Type.Optional(
    Type.String({
      description: 'Name of a template of this file or of the account, or id of a built-in one.',
    }),
  ),
  constraints: Type.Optional(
    Type.Object(orNull(GateConstraints.properties), {
      additionalProperties: false,
      description: 'Over those of the template: null removes one. trusted_issuers may name issuer:NAME.',
    }),
  ),
  routes: Type.Optional(GateRoutes),
  catalog: Type.Optional(CatalogPublication),
  labels: Type.Optional(Labels),
});

const WebhookEntry = closed({
  key: Key,
  url: Type.String({ maxLength: limits.webhookUrlCharsMax, description: 'Tells webhooks apart.' }),
  events: Type.Array(Type.Enum(webhookEvents), { minItems: 1, maxItems: webhookEvents.length }),
  format: Type.Optional(Type.Enum(webhookFormats)),
  description: Type.Optional(Description),
  status: Type.Optional(Type.Enum(webhookStatuses)),
  labels: Type.Optional(Labels),
});

const ChannelEntry = closed({
  key: Key,
  name: { ...Name, description: 'Tells channels apart.' },
  kind: Type.Enum(channelKinds),
  gate: Type.Optional(
    Type.String({
      description: 'Name of a gate of this file or of the account. Absent: of the account itself.',
    }),
  ),
  target_env: Type.String({
    pattern: '^CHANNEL_[A-Z0-9_]{1,120}$',
    description:
      'Environment variable with the target, which is a secret: no other is read. Not set: it stays as it is.',
  }),
  after_s: Type.Optional(Type.Integer({ minimum: 0, maximum: limits.approvalExpiryMsMax / secondMs })),
  events: Type.Optional(
    Type.Array(Type.Enum(channelEvents), { minItems: 1, maxItems: channelEvents.length }),
  ),
  status: Type.Optional(Type.Enum(channelStatuses)),
});

/** What `agent-trust apply` reads and `agent-trust export` writes. */
export const ApplyFile = closed({
  version: Type.Literal(1),
  labels: Type.Optional({ ...Labels, description: 'Of every gate, wallet and webhook of this file.' }),
  wallets: Type.Optional(Type.Array(WalletEntry)),
  issuers: Type.Optional(Type.Array(IssuerEntry)),
  templates: Type.Optional(Type.Array(TemplateEntry)),
  gates: Type.Optional(Type.Array(GateEntry)),
  webhooks: Type.Optional(Type.Array(WebhookEntry)),
  channels: Type.Optional(Type.Array(ChannelEntry)),
});
export type ApplyFile = Static<typeof ApplyFile>;

/** docs/apply.schema.json. */
export const applySchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'A file of agent-trust apply',
  ...ApplyFile,
};

const readShape = bodyReader(ApplyFile);

/** A file with the places of its values. */
export interface ReadFile extends Pick<ReadYaml, 'fault'> {
  readonly content: ApplyFile;
}

/** Throws UsageError with the line at fault. */
export function readApplyFile(path: string, text: string): ReadFile {
  const { value, fault } = readYaml(path, text);
  try {
    return { content: readShape(value), fault };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw fault(error.param, `${error.message}${neededVariable(value, error.param)}`);
  }
}

/** The hint of a channel that names another variable than those that are read. */
function neededVariable(value: unknown, param: string | null): string {
  const [, place] = /^channels\.(\d+)\.target_env$/.exec(param ?? '') ?? [];
  const { channels } = value as { readonly channels?: readonly { readonly name?: unknown }[] };
  const name = place === undefined ? undefined : channels?.[Number(place)]?.name;
  if (typeof name !== 'string') return '';
  return ` Only variables that begin with CHANNEL_ are read: call it ${targetVariable(name, new Set())}.`;
}
