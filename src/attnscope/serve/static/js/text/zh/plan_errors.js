// @ts-check
/** 规划器报错的话，中文；写法见 planner/words.js。 */

/** @type {[string, string][]} */
const QUESTION = [
  ["The question is not JSON.", "这个问题不是 JSON。"],
  ["The question names no model.", "这个问题没有说是哪个模型。"],
  ["The question has an unknown field {=field}.", "这个问题里有一个不认识的字段 {field}。"],
  ["{=field} must be text, got {=value}.", "{field} 必须是文字，给的是 {value}。"],
  ["versus must name a model.", "对照模型没有名字。"],
  ["The model has no name.", "模型没有名字。"],
  ["There is no built-in model {=model}.", "没有叫 {model} 的内置模型。"],
  ["A config has at most {#most} characters here; `attnscope plan` reads files of up to {#bytes} bytes.", "在这里，一份 config 最多 {most} 个字符；`attnscope plan` 能读最大 {bytes} 字节的文件。"],
  ["{=name} is empty: paste the text of a config.json.", "{name} 是空的：请粘贴 config.json 的内容。"],
  ["heads must be numbers such as 4,8, got {=value}.", "KV 头数要写成 4,8 这样的数，给的是 {value}。"],
  ["context must be a whole number from 1 to {#most}, got {=value}.", "上下文必须是 1 到 {most} 的整数，给的是 {value}。"],
  ["batch must be a whole number from 1 to {#most}, got {=value}.", "并行序列数必须是 1 到 {most} 的整数，给的是 {value}。"],
  ["window must be a whole number from 1 to {#most}, got {=value}.", "窗口必须是 1 到 {most} 的整数，给的是 {value}。"],
  ["bytes must look like 141GB, 80GiB or 1000000, got {=value}.", "字节数要写成 141GB、80GiB 或 1000000 这样，给的是 {value}。"],
  ["bytes must be at most 10^18, got {=value}.", "字节数最多 10^18，给的是 {value}。"],
  ["room must be bytes such as 141GB or 80GiB (up to 10^18), or a device ({=devices}), got {=value}.", "空间要写成 141GB、80GiB 这样的字节数（不超过 10^18），或一种设备（{devices}），给的是 {value}。"],
  ["device must be one of {=devices}, got {=value}.", "设备必须是 {devices} 之一，给的是 {value}。"],
  ["dtype must be one of {=formats} (what activations are kept in), got {=value}. For a smaller cache, give kv_dtype.", "权重和激活的格式必须是 {formats} 之一，给的是 {value}。想让缓存更小，请选缓存格式。"],
  ["dtype must be one of {=formats} (what activations are kept in), got {=value}.", "权重和激活的格式必须是 {formats} 之一，给的是 {value}。"],
  ["kv_dtype must be one of {=formats}, got {=value}.", "缓存格式必须是 {formats} 之一，给的是 {value}。"],
  ["share must look like 1/4, got {=value}.", "占比要写成 1/4 这样，给的是 {value}。"],
  ["share must be from {=least} to {=most}, got {=value}.", "占比必须在 {least} 到 {most} 之间，给的是 {value}。"],
  ["share {=share} needs window too: no layer of {=model} has a window that the others could have. Give one, such as window 4096.", "占比 {share} 还需要一个窗口：{model} 没有一层有窗口可供别的层用。请再填一个，比如窗口 4096。"],
  ["window {=window} needs share too: no layer of {=model} slides. Say how many are to stay full, such as share 1/4.", "窗口 {window} 还需要一个占比：{model} 没有一层是滑动的。请说明多少层保持全注意力，比如占比 1/4。"],
];

/** @type {[string, string][]} */
const JSON_TEXT = [
  ["{=name} is nested too deeply to be a config.", "{name} 嵌套得太深，不像是 config。"],
  ["{=name} is not JSON: {what} at line {#line}, column {#column}.", "{name} 不是 JSON：第 {line} 行第 {column} 列，{what}。"],
  ["{=name} is not text: byte {#at} is not UTF-8.", "{name} 不是文本：第 {at} 个字节不是 UTF-8。"],
  ["{=name} holds a number that cannot be one: it has {#digits} digits.", "{name} 里有一个不可能的数：它有 {digits} 位。"],
  ["{=name} holds a list, not an object with a model's fields.", "{name} 是一个列表，不是写着模型字段的对象。"],
  ["{=name} holds a string, not an object with a model's fields.", "{name} 是一个字符串，不是写着模型字段的对象。"],
  ["{=name} holds a number, not an object with a model's fields.", "{name} 是一个数，不是写着模型字段的对象。"],
  ["{=name} holds a boolean, not an object with a model's fields.", "{name} 是一个真假值，不是写着模型字段的对象。"],
  ["{=name} holds nothing, not an object with a model's fields.", "{name} 是空值，不是写着模型字段的对象。"],
  ["Expecting property name enclosed in double quotes", "这里应当是用双引号括起来的字段名"],
  ["Expecting ':' delimiter", "这里应当是冒号"],
  ["Expecting ',' delimiter", "这里应当是逗号"],
  ["Illegal trailing comma before end of object", "对象的结尾多了一个逗号"],
  ["Illegal trailing comma before end of array", "列表的结尾多了一个逗号"],
  ["Invalid control character at", "这里有一个不许用的控制字符"],
  ["Unterminated string starting at", "从这里开始的字符串没有结束"],
  ["Invalid \\escape", "反斜杠后面的写法不对"],
  ["Invalid \\uXXXX escape", "\\uXXXX 的写法不对"],
  ["Invalid \\escape: {=rest}", "反斜杠后面的写法不对"],
  ["Expecting value", "这里应当是一个值"],
  ["Extra data", "后面还有多余的内容"],
  ["Unexpected UTF-8 BOM (decode using utf-8-sig)", "开头有一个 UTF-8 BOM"],
];

/** @type {[string, string][]} */
const REASONS = [
  ["its cache grows with patches whose number depends on the text", "它的缓存随片段增长，而片段的数目取决于正文"],
  ["its library gives it no cache: every step computes all keys again", "它的库不给它缓存：每一步都把所有 key 重算一遍"],
  ["it keeps buckets of its own and no keys", "它存的是自己的桶，不是 key"],
  ["it keeps hidden states (mems) instead of keys and values", "它存的是隐藏状态（mems），不是 K 和 V"],
  ["its states depend on a kernel chosen at run time", "它的状态取决于运行时才选的内核"],
  ["it is a draft model that reads its target's cache and keeps none", "它是打草稿的模型，读目标模型的缓存，自己不存"],
  ["it generates sound codes, not text", "它生成的是声音编码，不是文本"],
  ["it puts prompts of its own before the text, which its config counts elsewhere", "它在正文前面加自己的提示，这部分写在 config 的别处"],
  ["it is an encoder-decoder: part of its cache grows with the source, not the context", "它是编码器—解码器：缓存有一部分随源文本增长，不随上下文增长"],
  ["it is an image model's config", "这是图像模型的 config"],
  ["model_type {=kind} is an image model", "model_type {kind} 是图像模型"],
];

/** 带冒号的整句，要排在“名字：句子”前面。 @type {[string, string][]} */
const WHOLE = [
  ["model_type {=kind} cannot be planned: {why}.", "model_type {kind} 没法规划：{why}。"],
  ["is_encoder_decoder is true: part of its cache grows with the source, not the context.", "is_encoder_decoder 为 true：缓存有一部分随源文本增长，不随上下文增长。"],
  ["model_type {=kind} is an encoder (is_decoder is not true): it keeps no cache.", "model_type {kind} 是编码器（is_decoder 不是 true）：它没有缓存。"],
  ["use_bidirectional_attention is on: an encoder keeps no cache.", "use_bidirectional_attention 开着：编码器没有缓存。"],
  ["indexer_types begins with a shared indexer: there is none before it.", "indexer_types 一开头就是借用的索引器：前面没有可借的。"],
  ["ple_layer_ids is not empty: what layers with n-gram embeddings keep is not known here.", "ple_layer_ids 不是空的：带 n-gram 嵌入的层存什么，这里不知道。"],
];

/** @type {[string, string][]} */
export const FIELDS = [
  ["model_type {=kind} is not an architecture the planner knows. If all its layers are ordinary attention, --assume-full (assume_full=True) plans it so, marked.", "规划器不认识 model_type {kind} 这种架构。如果它每一层都是普通注意力，请在“如果换一种做法”里勾选“把每一层都当作普通注意力”，结果里会注明。"],
  ["the field model_type is missing, so this is no model's config.json that can be read.", "缺少字段 model_type，所以这不是能读的模型 config.json。"],
  ["{what}, which keeps no cache of tokens.", "{what}，没有 token 的缓存。"],
  ["it has {#count} layers; more than {#most} are no model.", "它有 {count} 层；超过 {most} 层就不是模型了。"],
  ["the field {=field} is missing (nor {=others}); {=kind} cannot do without.", "缺少字段 {field}（也没有 {others}）；{kind} 少不了它。"],
  ["the field {=field} is missing; {=kind} cannot do without.", "缺少字段 {field}；{kind} 少不了它。"],
  ["a layer is sliding_attention but the field sliding_window is missing.", "有一层是 sliding_attention，却缺少字段 sliding_window。"],
  ["the field {=field} is missing.", "缺少字段 {field}。"],
  ["{=field} is missing and {=one} is not a multiple of {=two}; they contradict each other.", "缺少 {field}，而 {one} 不是 {two} 的倍数；两者互相矛盾。"],
  ["{=field} is missing.", "缺少 {field}。"],
  ["{=field} must be a whole number, got {=value}.", "{field} 必须是整数，给的是 {value}。"],
  ["{=field} must be from {=least} to {=most}, got {=value}.", "{field} 必须在 {least} 到 {most} 之间，给的是 {value}。"],
  ["{=field} must be true or false, got {=value}.", "{field} 必须是 true 或 false，给的是 {value}。"],
  ["{=field} must be a list with one item per layer, got {=value}.", "{field} 必须是每层一项的列表，给的是 {value}。"],
  ["{=field} must be a list of layers, got {=value}.", "{field} 必须是层号的列表，给的是 {value}。"],
  ["{=field} must be a list, got {=value}.", "{field} 必须是列表，给的是 {value}。"],
  ["{=field} must be a table, got {=value}.", "{field} 必须是一个表，给的是 {value}。"],
  ["{=field} has {#count} items, none for layer {#layer}.", "{field} 有 {count} 项，没有第 {layer} 层的。"],
  ["{=field} has {#count} items but {=other} is {#layers}; they contradict each other.", "{field} 有 {count} 项，而 {other} 是 {layers}；两者互相矛盾。"],
  ["{=field} has {#count} letters but {=other} is {#layers}; they contradict each other.", "{field} 有 {count} 个字母，而 {other} 是 {layers}；两者互相矛盾。"],
  ["{=field} describes {#count} layers but {=other} is {#layers}; they contradict each other.", "{field} 写了 {count} 层，而 {other} 是 {layers}；两者互相矛盾。"],
  ["{=one} is not a multiple of the {#heads} Mamba heads; they contradict each other.", "{one} 不是 Mamba 头数 {heads} 的倍数；两者互相矛盾。"],
  ["{=one} is not a multiple of {=two}; they contradict each other.", "{one} 不是 {two} 的倍数；两者互相矛盾。"],
  ["{=one} is more than {=two}; they contradict each other.", "{one} 大于 {two}；两者互相矛盾。"],
  ["{=one} is not qk_nope_head_dim + qk_rope_head_dim = {=sum}; they contradict each other.", "{one}，不等于 qk_nope_head_dim + qk_rope_head_dim = {sum}；两者互相矛盾。"],
  ["{=one}, but compressed sparse attention has one; they contradict each other.", "{one}，但压缩稀疏注意力只有一个；两者互相矛盾。"],
  ["{=one}, but {=kind} has no windows; they contradict each other.", "{one}，但 {kind} 没有窗口；两者互相矛盾。"],
  ["the loop runs {#passes} times over layers {#start} to {#end} of {#layers}; they contradict each other.", "循环在 {layers} 层里的第 {start} 到 {end} 层上跑 {passes} 遍；两者互相矛盾。"],
  ["{=one} leaves layer {#layer} ({=kind}) no layer of its kind to share with; they contradict each other.", "{one}，第 {layer} 层（{kind}）就没有同类的层可以共用；两者互相矛盾。"],
  ["{=field} has full layers at {=places}..., but {=other} puts them at {=others}...; they contradict each other.", "{field} 的全注意力层在 {places}……，而 {other} 说在 {others}……；两者互相矛盾。"],
  ["{=one} contradicts expand x hidden_size = {#inner}; the library takes the latter.", "{one} 与 expand x hidden_size = {inner} 矛盾；库以后者为准。"],
  ["{=said} contradict each other.", "{said}：互相矛盾。"],
  ["{=name} is {=sort}, a sort of attention not known here.", "{name} 是 {sort}，这里不认识这种注意力。"],
  ["{=name} is {=kind}, a kind of layer that the planner does not know.", "{name} 是 {kind}，规划器不认识这种层。"],
  ["layer {#layer} is {=kind}, a kind that {=model} is not known to have.", "第 {layer} 层是 {kind}，没听说 {model} 有这种层。"],
  ["{=name} is {=value}; full and shared are known.", "{name} 是 {value}；只认识 full 和 shared。"],
  ["{=name} is {=value}; 0, 4, 128 are known.", "{name} 是 {value}；只认识 0、4、128。"],
  ["{=flag} is true, but no field says how many KV heads {=kind} has.", "{flag} 为 true，但没有字段写明 {kind} 有几个 KV 头。"],
  ["{=field} is not there, which says where the attention stands.", "没有 {field}，不知道注意力在哪些层。"],
  ["neither {=one} nor {=two} says which layers are full.", "{one} 和 {two} 都没有写哪些层是全注意力。"],
  ["neither {=one} nor {=two} is there.", "{one} 和 {two} 都没有。"],
  ["attn_type_list must hold zeros and ones.", "attn_type_list 里只能是 0 和 1。"],
  ["layer {#layer} stands in neither list of linear_attn_config.", "第 {layer} 层不在 linear_attn_config 的任何一个列表里。"],
  ["layer {=layer} stands in both lists of linear_attn_config.", "第 {layer} 层同时在 linear_attn_config 的两个列表里。"],
  ["{=field} holds {=number}; layers are 1 to {#layers}.", "{field} 里有 {number}；层号是 1 到 {layers}。"],
  ["block_types must list the kinds of the repeating block.", "block_types 要列出重复的那一块里各层的种类。"],
  ["block_types must hold recurrent and attention, got {=value}.", "block_types 里只能是 recurrent 和 attention，给的是 {value}。"],
  ["{=field} must list {#count} ratios.", "{field} 要列出 {count} 个比例。"],
  ["{=field} must list {#count}.", "{field} 要列出 {count} 项。"],
  ["attention_types must hold [[kinds], times].", "attention_types 要写成 [[种类], 次数]。"],
];

/** 句子前面是 config 的名字或引擎的名字。 @type {[string, string][]} */
export const NAMED = [["{=name}: {sentence}", "{name}：{sentence}"]];

/** @type {[string, string][]} */
export const SENTENCES = [...QUESTION, ...JSON_TEXT, ...REASONS, ...WHOLE];
