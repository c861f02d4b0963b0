import { Type } from 'typebox';
import { catalogue } from '../../errors/catalogue.ts';

/** The body of every error of every endpoint (contract §12). Rendered by `renderError`. */
export const ErrorAnswer = Type.Object({
  error: Type.Object({
    code: Type.Enum(Object.keys(catalogue)),
    message: Type.String(),
    status: Type.Integer(),
    request_id: Type.String(),
    param: Type.Optional(Type.String()),
    /** Where in an expression its fault is. */
    details: Type.Optional(
      Type.Object({ line: Type.Integer(), column: Type.Integer(), message: Type.String() }),
    ),
  }),
  /** Of a refused security event alone (RFC 8935 §2.4). */
  err: Type.Optional(Type.String()),
  description: Type.Optional(Type.String()),
});
