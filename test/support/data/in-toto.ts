import { Type } from 'typebox';
import { Check } from 'typebox/value';

/**
 * The in-toto Statement v1 and its ResourceDescriptor, by their specification
 * (https://github.com/in-toto/attestation, spec/v1/statement.md and resource_descriptor.md). A member that
 * the service does not write is not taken.
 */
export const isStatement = (value: unknown): boolean => Check(Statement, value);

/** RFC 3986: a scheme in lower case, and no characters that a URI lacks. */
const typeUri = Type.String({ pattern: "^[a-z][a-z0-9+.-]*:[A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=%-]+$" });

const Statement = Type.Object(
  {
    _type: Type.Literal('https://in-toto.io/Statement/v1'),
    subject: Type.Array(
      Type.Object(
        {
          name: Type.String({ minLength: 1 }),
          digest: Type.Object(
            { sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }) },
            { additionalProperties: false },
          ),
        },
        { additionalProperties: false },
      ),
      { minItems: 1 },
    ),
    predicateType: typeUri,
    predicate: Type.Record(Type.String(), Type.Unknown()),
  },
  { additionalProperties: false },
);
