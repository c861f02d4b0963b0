import { canonicalJson } from '../../crypto/canonical-json.ts';
import { textHash } from '../../crypto/content-hash.ts';
import { isJsonObject, type JsonObject } from '../../crypto/json-object.ts';
import { limits } from '../../model/limits.ts';
import { isPlainText } from '../../model/plain-text.ts';

/** A tool of an MCP server, as it is pinned. */
export interface McpTool {
  readonly name: string;
  /** Its members that a model or a person acts on, in the form of RFC 8785. */
  readonly definition: string;
  /** SHA-256 of `definition`. */
  readonly hash: string;
  /** SHA-256 of the same without name and title. */
  readonly bodyHash: string;
}

const members = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations'] as const;

/** Null: it cannot be pinned, because it is too large or too deep, or its name is no plain text. */
export function readMcpTool(tool: unknown): McpTool | null {
  if (!isJsonObject(tool)) return null;
  const { name } = tool;
  if (typeof name !== 'string' || name === '' || name.length > limits.nameCharsMax) return null;
  if (!isPlainText(name) || !isShallow(tool, limits.mcpToolDepthMax)) return null;
  const kept = Object.fromEntries(
    members.flatMap((each) => (Object.hasOwn(tool, each) ? [[each, tool[each]]] : [])),
  );
  try {
    const definition = canonicalJson(kept);
    if (Buffer.byteLength(definition) > limits.mcpToolBytesMax) return null;
    const { name: _, title: __, ...body } = kept as JsonObject;
    return { name, definition, hash: textHash(definition), bodyHash: textHash(canonicalJson(body)) };
  } catch {
    // A lone surrogate or a number beyond the doubles.
    return null;
  }
}

/** A definition of a report. Null: it is none, or not in its canonical form. */
export function parseMcpTool(definition: string): McpTool | null {
  try {
    const tool = readMcpTool(JSON.parse(definition));
    return tool?.definition === definition ? tool : null;
  } catch {
    return null;
  }
}

/** `JSON.parse` reads any depth, and what follows recurses. */
function isShallow(value: unknown, depthLeft: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return depthLeft > 0 && Object.values(value).every((each) => isShallow(each, depthLeft - 1));
}
