import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { canonicalJson } from '../crypto/canonical-json.ts';
import { closed } from '../wire/api/fields.ts';
import { SignedApproval, SignedCondition, SignedPassport } from '../wire/evidence/evidence.ts';
import { SignedPolicy } from '../wire/evidence/policy.ts';

/** As `GET /gates/:id/catalog` answers it, of any version of the service. */
const SignedCatalog = Type.Object({
  content_hash: Type.String(),
  signature: Type.String(),
  signing_key_id: Type.String(),
});

/**
 * What the records of an export name, after its chains: policies, the catalogs that these name, passports,
 * approvals; of each kind ascending by name. The name of an approval begins with the passport that it is for.
 * With `facts=1` also the checked forms of conditions of these policies and passports, by their hashes.
 */
export const Attachment = Type.Union([
  closed({ policy: SignedPolicy }),
  closed({ catalog: SignedCatalog }),
  closed({ passport: SignedPassport }),
  closed({ approval: SignedApproval }),
  closed({ condition: SignedCondition }),
]);
export type Attachment = Static<typeof Attachment>;

const shape = Compile(Attachment);

/** Of the parsed JSON of its line; null for another line. */
export const parseAttachment = (value: unknown): Attachment | null => (shape.Check(value) ? value : null);

export const attachmentLine = (attachment: Attachment): string => `${canonicalJson(attachment)}\n`;
