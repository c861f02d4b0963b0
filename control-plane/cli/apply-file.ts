import { type Static, type TProperties, Type } from 'typebox';
import { LineCounter, parseDocument } from 'yaml';
import { ApiError } from '../../shared/errors/api-error.ts';
import { channelEvents, channelKinds, channelStatuses } from '../../shared/model/channel.ts';
import { issuerStatuses } from '../../shared/model/issuer.ts';
import { labelNamePattern, labelsMax, labelValueCharsMax } from '../../shared/model/labels.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import { walletStatuses } from '../../shared/model/wallet.ts';
import { webhookEvents, webhookFormats, webhookStatuses } from '../../shared/model/webhook.ts';
import { bodyReader } from '../../shared/wire/body.ts';
import { CatalogPublication } from '../../shared/wire/catalog.ts';
import { GateConstraints } from '../../shared/wire/constraints.ts';
import { closed, Description, Name, nullable, Tier } from '../../shared/wire/fields.ts';
import { GateRoutes } from '../../shared/wire/gate-routes.ts';
import { IssuerCreation } from '../../shared/wire/issuer.ts';
import { TemplateCreation } from '../../shared/wire/template.ts';
import { WalletCreation } from '../../shared/wire/wallet.ts';
import { UsageError } from './call-api.ts';

const Labels = Type.Record(
  Type.String({ pattern: labelNamePattern.source }),
  Type.String({ maxLength: labelValueCharsMax }),
  { maxProperties: labelsMax },
);

/** Absent: as it is in the service. */
const IssuerEntry = closed({
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
  ...walletMembers,
  name: { ...Name, description: 'Tells wallets apart.' },
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

const GateEntry = closed({
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
  url: Type.String({ maxLength: limits.webhookUrlCharsMax, description: 'Tells webhooks apart.' }),
  events: Type.Array(Type.Enum(webhookEvents), { minItems: 1, maxItems: webhookEvents.length }),
  format: Type.Optional(Type.Enum(webhookFormats)),
  description: Type.Optional(Description),
  status: Type.Optional(Type.Enum(webhookStatuses)),
  labels: Type.Optional(Labels),
});

const ChannelEntry = closed({
  name: { ...Name, description: 'Tells channels apart.' },
  kind: Type.Enum(channelKinds),
  gate: Type.Optional(
    Type.String({
      description: 'Name of a gate of this file or of the account. Absent: of the account itself.',
    }),
  ),
  target_env: Type.String({
    pattern: '^[A-Z][A-Z0-9_]{0,127}$',
    description: 'Environment variable with the target, which is a secret. Not set: it stays as it is.',
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
  templates: Type.Optional(Type.Array(TemplateCreation)),
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
export interface ReadFile {
  readonly content: ApplyFile;
  /** A fault of the value at this place, such as `gates.0.trust_level`, by its line in the file. */
  fault(param: string | null, message: string): UsageError;
}

/** Throws UsageError with the line at fault. An alias may not repeat more than a hundred times. */
export function readApplyFile(path: string, text: string): ReadFile {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, prettyErrors: false });
  const at = (offset: number) => {
    const { line, col } = lineCounter.linePos(offset);
    return `${path}:${line}:${col}`;
  };
  const [broken] = document.errors;
  if (broken !== undefined) throw new UsageError(`${at(broken.pos[0])}: ${broken.message}`);
  const fault = (param: string | null, message: string): UsageError => {
    const range = rangeOf(document, param);
    return new UsageError(`${range === null ? path : at(range)}: ${message}`);
  };
  try {
    return { content: readShape(document.toJS()), fault };
  } catch (error) {
    if (error instanceof ApiError) throw fault(error.param, error.message);
    throw new UsageError(`${path}: ${error instanceof Error ? error.message : error}`);
  }
}

/** Where the value is, or the innermost that is there. */
function rangeOf(document: ReturnType<typeof parseDocument>, param: string | null): number | null {
  const names = param === null || param === 'body' ? [] : param.split('.');
  for (let length = names.length; length >= 0; length--) {
    const path = names.slice(0, length).map((name) => (/^\d+$/.test(name) ? Number(name) : name));
    const node: unknown = length === 0 ? document.contents : document.getIn(path, true);
    if (typeof node === 'object' && node !== null && 'range' in node && Array.isArray(node.range))
      return Number(node.range[0]);
  }
  return null;
}
