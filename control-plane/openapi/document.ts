/**
 * Room `control-plane/openapi`: the published document: what the routes declare, with the words of fields
 * (`glossary.ts`), examples of answers and named schemas (`install-openapi.ts`).
 */

import type { Example } from '../http/operation.ts';

/** The parts of an OpenAPI 3.1 document that are written or read here. Schemas are JSON Schema 2020-12. */
export type Schema = Readonly<Record<string, unknown>>;

export interface Reference {
  readonly $ref: string;
}

export interface MediaType {
  readonly schema: Schema;
  readonly examples?: Readonly<Record<string, Example>>;
}

export interface Header {
  readonly description: string;
  readonly schema: Schema;
}

export interface Answer {
  readonly description: string;
  readonly headers: Readonly<Record<string, Reference>>;
  readonly content?: Readonly<Record<string, MediaType>>;
  /** Codes of the catalogue, in its order; an error answer holds one of them. */
  readonly 'x-error-codes'?: readonly string[];
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

export interface RequestBody {
  readonly required: boolean;
  readonly content: Readonly<Record<string, MediaType>>;
}

export interface Server {
  readonly url: string;
  readonly description: string;
}

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly servers?: readonly Server[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: RequestBody;
  readonly responses: Readonly<Record<string, Answer | Reference>>;
}

/** A webhook: its request, and the receiver's possible answers. */
export interface WebhookOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: readonly string[];
  readonly security: readonly [];
  readonly parameters: readonly Parameter[];
  readonly requestBody: RequestBody;
  readonly responses: Readonly<Record<string, { readonly description: string }>>;
}

export interface Document {
  readonly openapi: string;
  readonly info: object;
  readonly servers: readonly Server[];
  readonly tags: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  /** By event. */
  readonly webhooks?: Readonly<Record<string, { readonly post: WebhookOperation }>>;
  readonly components: {
    readonly securitySchemes: Readonly<Record<string, object>>;
    readonly headers: Readonly<Record<string, Header>>;
    readonly responses: Readonly<Record<string, Answer>>;
    readonly schemas: Readonly<Record<string, Schema>>;
  };
}
