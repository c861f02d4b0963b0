// What the hostile MCP server of the tests answers, on whatever transport. `state` is the test's: it may
// change between two messages.

/** Answers and notifications for a message, in order. `note` is told of what has been reached. */
export function answersTo(message, state, note) {
  const { id, method, params = {} } = message;
  const result = (value) => [{ jsonrpc: '2.0', id, result: value }];
  switch (method) {
    case 'initialize':
      return result({
        protocolVersion: params.protocolVersion,
        capabilities: {
          tools: { listChanged: true },
          resources: { subscribe: true },
          prompts: {},
          completions: {},
        },
        serverInfo: { name: 'hostile', version: '1' },
      });
    case 'ping':
      return [...(state.notifications ?? []), ...result({})];
    case 'tools/list': {
      const at = Number(params.cursor ?? 0);
      const more = at + 1 < state.pages.length ? { nextCursor: String(at + 1) } : {};
      return result({ tools: state.pages[at] ?? [], ...more });
    }
    case 'resources/list':
      return result({ resources: [{ uri: 'file:///a', name: 'a' }] });
    case 'resources/templates/list':
      return result({ resourceTemplates: [{ uriTemplate: 'file:///{a}', name: 'a' }] });
    case 'prompts/list':
      return result({ prompts: [{ name: 'greet' }] });
    case 'tools/call':
      note(`call ${params.name}`);
      if (state.error !== undefined) return [{ jsonrpc: '2.0', id, error: state.error }];
      return [
        ...(state.asks ?? []),
        ...result(state.result ?? { content: [{ type: 'text', text: 'done' }] }),
      ];
    case 'resources/read':
      note(`read ${params.uri}`);
      return result({ contents: [{ uri: params.uri, text: 'text' }] });
    case 'resources/subscribe':
      note(`subscribe ${params.uri}`);
      return result({});
    case 'prompts/get':
      note(`prompt ${params.name}`);
      return result({ messages: [] });
    case 'completion/complete':
      note('complete');
      return result({ completion: { values: ['x'] } });
    default:
      // What the client, or the guard in its place, answers to the server.
      if (method === undefined) note(`answer ${id} ${message.error === undefined ? 'result' : 'error'}`);
      return [];
  }
}
