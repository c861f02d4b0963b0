import type { Example, HeaderName, OperationText } from '../http/operation.ts';
import recordedAnswers from './answer-examples.json' with { type: 'json' };
import { namedSchemas } from './components.ts';
import type {
  Answer,
  Document,
  MediaType,
  Operation,
  Parameter,
  Reference,
  RequestBody,
  Schema,
} from './document.ts';
import { describeParameter } from './glossary.ts';
import { headerReferences, headers, rateLimitHeaders, requestHeaders } from './headers.ts';
import { type PublishSchema, schemaPublisher } from './publish-schema.ts';
import { type Refusals, refusals } from './refusals.ts';
import { errorsOfRoute, type RouteFacts } from './route-errors.ts';
import { webhookOperations } from './webhook-operations.ts';

/** Answers of tests (`test/support/data/record-answers.ts`), by the name of their schema. */
export const answerExamples: Readonly<Record<string, readonly unknown[]>> = recordedAnswers;

/** An operation as its route and its text describe it; in the document it is found by its operationId. */
export interface DescribedOperation {
  readonly text: OperationText;
  readonly route: RouteFacts;
}

/**
 * Makes the published document of what the framework generated from the routes' schemas: names the schemas,
 * describes every field and parameter, and adds what no schema says, namely headers, refusals and examples.
 * Pure.
 */
export function completeDocument(
  generated: Document,
  described: ReadonlyMap<string, DescribedOperation>,
): Document {
  const { schemas, publish } = schemaPublisher(asJson(namedSchemas));
  const refused = refusals();
  const complete = (path: string, operation: Operation): Operation => {
    const known = described.get(operation.operationId);
    return known === undefined ? operation : completeOperation({ path, operation, known, publish, refused });
  };
  const paths = Object.entries(generated.paths).map(([path, item]) => {
    const methods = Object.entries(item).map(([method, operation]) => [method, complete(path, operation)]);
    return [path, Object.fromEntries(methods)] as const;
  });
  return {
    ...generated,
    paths: Object.fromEntries(paths.toSorted(byName)),
    webhooks: webhookOperations(),
    components: {
      securitySchemes: generated.components.securitySchemes,
      headers,
      responses: Object.fromEntries(Object.entries(refused.components).toSorted(byName)),
      schemas: Object.fromEntries(
        Object.entries(schemas).map(([name, schema]) => {
          const examples = answerExamples[name];
          return [name, examples === undefined ? schema : { ...schema, examples }];
        }),
      ),
    },
  };
}

/** Without what TypeBox keeps in its schemas for itself. */
const asJson = (schemas: object): Readonly<Record<string, Schema>> => JSON.parse(JSON.stringify(schemas));

const byName = ([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number =>
  one < other ? -1 : Number(one > other);

interface Completion {
  readonly path: string;
  readonly operation: Operation;
  readonly known: DescribedOperation;
  readonly publish: PublishSchema;
  readonly refused: Refusals;
}

function completeOperation({ path, operation, known, publish, refused }: Completion): Operation {
  const { route, text } = known;
  const parameters = [
    ...(operation.parameters ?? []).map((parameter) => completeParameter(path, parameter, publish)),
    ...(route.isIdempotent ? [requestHeaders['Idempotency-Key']] : []),
    ...(text.requestHeaders ?? []).map((name) => requestHeaders[name]),
  ];
  const body = operation.requestBody?.content['application/json'];
  const refusalsByStatus = [...errorsOfRoute(route)].map(([status, codes]): [string, Reference] => [
    String(status),
    refused.refer(status, codes),
  ]);
  const refusedStatuses = new Set(refusalsByStatus.map(([status]) => status));
  const own = Object.entries(operation.responses)
    .filter(([status]) => !refusedStatuses.has(status))
    .map(([status, answer]): [string, Answer] => [
      status,
      completeAnswer(answer, { status, known, publish }),
    ]);
  const canBeUnchanged = (text.requestHeaders ?? []).includes('If-None-Match');
  return {
    ...operation,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: requestBodyOf(body, text.examples, publish) }),
    responses: {
      ...Object.fromEntries([...own, ...refusalsByStatus]),
      ...(canBeUnchanged ? { 304: unchanged } : {}),
    },
  };
}

/** A parameter with a default may be left out, whatever the schema that is read after filling it in says. */
function completeParameter(path: string, parameter: Parameter, publish: PublishSchema): Parameter {
  const schema = publish(parameter.schema);
  const isRequired = parameter.in === 'path' || (parameter.required && schema['default'] === undefined);
  return describeParameter(path, { ...parameter, required: isRequired, schema });
}

/** No body counts as `{}`, so it is required only where `{}` would lack something. */
function requestBodyOf(
  { schema }: MediaType,
  examples: Readonly<Record<string, Example>> | undefined,
  publish: PublishSchema,
): RequestBody {
  const takesNothing = (each: Schema): boolean =>
    Array.isArray(each['anyOf']) ? each['anyOf'].some(takesNothing) : each['required'] === undefined;
  return {
    required: !takesNothing(schema),
    content: {
      'application/json': { schema: publish(schema), ...(examples === undefined ? {} : { examples }) },
    },
  };
}

function completeAnswer(
  answer: Answer | Reference,
  {
    status,
    known,
    publish,
  }: { readonly status: string; readonly known: DescribedOperation; readonly publish: PublishSchema },
): Answer {
  const { text, route } = known;
  const names: HeaderName[] = [
    'X-Request-Id',
    ...(route.scope === null && !route.needsSession && !route.takesOneOfScopes ? [] : rateLimitHeaders),
    ...(route.isIdempotent ? (['Idempotent-Replayed'] as const) : []),
    ...(text.headers ?? []),
  ];
  const contents = text.contents === undefined ? contentsOf(answer) : Object.entries(asJson(text.contents));
  const content = contentIn(contents, publish);
  const isBodiless = status === '204' || (status === '202' && isNothing(content));
  return {
    description: `${statusTexts[status] ?? 'The answer.'}${isBodiless ? ' There is no body.' : ''}`,
    headers: headerReferences(names),
    ...(isBodiless ? {} : { content }),
  };
}

const isNothing = (content: ReturnType<typeof contentIn>): boolean =>
  Object.values(content).every(({ schema }) => Object.keys(schema).length === 0);

const contentIn = (contents: readonly (readonly [string, Schema])[], publish: PublishSchema) =>
  Object.fromEntries(contents.map(([type, schema]) => [type, { schema: publish(schema) }]));

const contentsOf = (answer: Answer | Reference): (readonly [type: string, Schema])[] =>
  'content' in answer
    ? Object.entries(answer.content ?? {}).map(([type, { schema }]) => [type, schema] as const)
    : [];

const unchanged: Answer = {
  description: 'Not modified: the cached version is current.',
  headers: headerReferences(['X-Request-Id', 'ETag', 'Cache-Control']),
};

const statusTexts: Readonly<Record<string, string>> = {
  200: 'Success.',
  201: 'Created.',
  202: 'Taken.',
  204: 'Success.',
  503: 'This process is not ready.',
};
