import MarkdownIt from 'markdown-it';

export interface Heading {
  readonly level: number;
  readonly anchor: string;
  readonly text: string;
}

export interface RenderedPage {
  readonly title: string;
  readonly html: string;
  /** Without the title. */
  readonly headings: readonly Heading[];
}

type Tokens = ReturnType<InstanceType<typeof MarkdownIt>['parse']>;

/**
 * Renders one page. `link` answers the address for the target of a link, or throws where it leads nowhere.
 * Code is not highlighted: that would need colours by inline styles or another library.
 */
export function renderMarkdown(text: string, link: (target: string) => string): RenderedPage {
  const markdown = new MarkdownIt({ html: true });
  const { rules } = markdown.renderer;
  rules['html_block'] = rules['html_inline'] = (tokens, at) => comment(tokens[at]?.content ?? '');
  // What scrolls by itself must be reachable by keyboard.
  rules['table_open'] = () => '<div class="scroll" tabindex="0"><table>';
  rules['table_close'] = () => '</table></div>';
  rules['fence'] = rules['code_block'] = (tokens, at) =>
    `<pre tabindex="0"><code>${markdown.utils.escapeHtml(tokens[at]?.content ?? '')}</code></pre>`;
  const tokens = markdown.parse(text, {});
  const headings = nameHeadings(tokens);
  markEmptyHeads(tokens);
  for (const inline of tokens) {
    for (const token of inline.children ?? []) {
      if (token.type === 'link_open') token.attrSet('href', link(String(token.attrGet('href') ?? '')));
      if (token.type === 'image') throw new Error('The guide serves no images.');
    }
  }
  const [title, ...others] = headings;
  if (title?.level !== 1) throw new Error('A page begins with its title.');
  return {
    title: title.text,
    headings: others,
    html: markdown.renderer.render(tokens, markdown.options, {}),
  };
}

/** Marks for tests are comments. Any other HTML would be beyond the policy of the page. */
function comment(html: string): string {
  if (!/^(?:\s*<!--[^>]*-->)*\s*$/.test(html)) throw new Error(`HTML in a page: ${html}`);
  return '';
}

/** Adds the anchors that GitHub gives to headings: one that occurs again gets a number. */
function nameHeadings(tokens: Tokens): readonly Heading[] {
  const seen = new Map<string, number>();
  return tokens.flatMap((token, at) => {
    if (token.type !== 'heading_open') return [];
    const text = plainText(tokens[at + 1]?.children ?? []);
    const slug = text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-');
    const times = seen.get(slug) ?? 0;
    seen.set(slug, times + 1);
    const anchor = times === 0 ? slug : `${slug}-${times}`;
    token.attrSet('id', anchor);
    return [{ level: Number(token.tag.slice(1)), anchor, text }];
  });
}

/** A head without a text heads nothing. */
function markEmptyHeads(tokens: Tokens): void {
  for (const [at, token] of tokens.entries()) {
    if (token.type !== 'th_open' || tokens[at + 1]?.content !== '') continue;
    for (const part of [token, tokens[at + 2]]) if (part !== undefined) part.tag = 'td';
  }
}

const plainText = (tokens: Tokens): string =>
  tokens.map(({ type, content }) => (type === 'text' || type === 'code_inline' ? content : '')).join('');
