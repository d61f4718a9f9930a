// @ts-check
/**
 * 规划器的话，中文：公式里的词、层的种类、说明。左边是它的原话，右边是译文；空格的写法见 planner/words.js。
 *
 * 整句先查，套句依次试，第一个对得上的算数。报错的话在 plan_errors.js。
 */

import { FIELDS, NAMED, SENTENCES } from "./plan_errors.js";

/** @type {[string, string][]} */
const KINDS = [
  ["full", "全注意力"],
  ["sliding", "滑动窗口"],
  ["chunked", "分块注意力"],
  ["mla", "MLA"],
  ["mla-expanded", "MLA（展开）"],
  ["mla-indexer", "MLA（带索引器）"],
  ["mla-shared-indexer", "MLA（借用索引器）"],
  ["full-indexer", "全注意力（带索引器）"],
  ["full-shared-indexer", "全注意力（借用索引器）"],
  ["shared", "借用别层的 K、V"],
  ["gated-deltanet", "Gated DeltaNet"],
  ["kda", "KDA"],
  ["mamba", "Mamba"],
  ["mamba2", "Mamba-2"],
  ["linear", "线性注意力"],
  ["conv", "短卷积"],
  ["recurrent", "其他递推"],
  ["compressed", "压缩（带索引器）"],
  ["heavily-compressed", "高倍压缩"],
  ["compressed-shared", "借用别层的压缩条目"],
  ["mlp", "没有注意力"],
  ["cross", "交叉注意力"],
  ["full+mamba2", "全注意力＋Mamba-2"],
  ["full+mamba", "全注意力＋Mamba"],
  ["full+conv", "全注意力＋卷积"],
  ["sliding+conv", "滑动窗口＋卷积"],
];

/** @type {[string, string][]} */
const MEANINGS = [
  ["keys and values of every token", "每个 token 的 K 和 V"],
  ["keys and values of the last W tokens", "最近 W 个 token 的 K 和 V"],
  ["keys and values of the present chunk, W tokens at most", "当前这一块的 K 和 V，最多 W 个 token"],
  ["one latent and one rotary key per token, for all heads", "每个 token 一个潜向量和一个旋转 key，所有头共用"],
  ["an MLA layer whose keys and values are kept per head", "MLA 层，但 K 和 V 按头展开存"],
  ["MLA with an indexer that keeps keys of its own", "MLA 加一个索引器，索引器另存自己的 key"],
  ["MLA that takes the selection of an earlier layer's indexer", "MLA，借用前面某层索引器的挑选结果"],
  ["keys and values of every token, and keys of an indexer", "每个 token 的 K 和 V，外加索引器的 key"],
  ["keys and values; the selection comes from an earlier layer's indexer", "K 和 V；挑选结果来自前面某层的索引器"],
  ["nothing: it reads the keys and values of another layer", "什么也不存：读另一层的 K 和 V"],
  ["a state per value head, and the taps of a convolution", "每个 value 头一份状态，外加一个卷积的抽头"],
  ["Kimi Delta Attention: a state per head, and the taps of three convolutions", "Kimi Delta Attention：每个头一份状态，外加三个卷积的抽头"],
  ["a Mamba-1 state, and the taps of a convolution", "一份 Mamba-1 状态，外加一个卷积的抽头"],
  ["a Mamba-2 state, and the taps of a convolution", "一份 Mamba-2 状态，外加一个卷积的抽头"],
  ["linear (lightning) attention: a state per head", "线性（lightning）注意力：每个头一份状态"],
  ["the taps of a short convolution", "一个短卷积的抽头"],
  ["another recurrence: a state of fixed size", "另一种递推：一份大小固定的状态"],
  ["a window, one entry per r tokens, and keys of an indexer over the entries", "一个窗口，每 r 个 token 一个条目，外加挑条目用的索引器的 key"],
  ["a window, and one entry per r tokens for r large", "一个窗口，外加每 r 个 token 一个条目，r 很大"],
  ["a window; the compressed entries are another layer's", "一个窗口；压缩条目是别层的"],
  ["nothing: no attention in it", "什么也不存：这一层没有注意力"],
  ["keys and values of an image or a source; none of the text", "图像或源文本的 K 和 V；不含正文的"],
  ["attention and Mamba-2 side by side in one layer", "同一层里注意力和 Mamba-2 并排"],
  ["attention and Mamba side by side in one layer", "同一层里注意力和 Mamba 并排"],
  ["attention and a convolution side by side in one layer", "同一层里注意力和卷积并排"],
  ["sliding attention and a convolution side by side in one layer", "同一层里滑动窗口注意力和卷积并排"],
  ["no attention in this layer", "这一层没有注意力"],
  ["transformers keeps this state in the module, not in the cache", "transformers 把这份状态放在模块里，不在缓存里"],
  ["transformers keeps every token", "transformers 会留下每个 token"],
  ["grows with the image, not with the text", "随图像增长，不随正文增长"],
];

/** @type {[string, string][]} */
const STORES = [
  ["keys", "K"],
  ["values", "V"],
  ["latent", "潜向量"],
  ["rotary key", "旋转 key"],
  ["indexer keys", "索引器的 key"],
  ["indexer entries", "索引器的条目"],
  ["entries", "压缩条目"],
  ["state", "状态"],
  ["states", "状态"],
  ["convolution", "卷积抽头"],
  ["window K=V", "窗口（K = V）"],
  ["last inputs", "最近的输入"],
  ["delayed value", "延迟的 V"],
  ["indexer", "索引器"],
  ["delta", "delta 状态"],
  ["nothing", "无"],
  ["{store}: waiting, with gates", "{store}：等待中，带门"],
  ["{store}: overlap's gates", "{store}：重叠部分的门"],
  ["{store}: overlap", "{store}：重叠部分"],
];

/** @type {[string, string][]} */
const SCHEMES = [
  ["as published", "发布时的样子"],
  ["MLA expanded", "MLA（展开）"],
  ["{=model} as {#full} full in {#of}, window {#window}", "{model}，每 {of} 层 {full} 层全注意力，窗口 {window}"],
  ["{=model} as {#full} full in {#of}", "{model}，每 {of} 层 {full} 层全注意力"],
  ["{=model}, window {#window}", "{model}，窗口 {window}"],
];

/** @type {[string, string][]} */
const FORMULAS = [
  ["{what}: layers x entries x bytes of an entry, summed", "{what}：层数 x 条目数 x 每个条目的字节数，逐项相加"],
  ["bytes of one more token past every window", "过了所有窗口之后，再多一个 token 的字节数"],
  ["bytes of one more token with every vector in {=format}", "每个向量都用 {format} 时，再多一个 token 的字节数"],
  ["bytes of one more token", "再多一个 token 的字节数"],
  ["bytes(T = {#tokens})", "bytes(T = {tokens})"],
  ["at most", "最多"],
  ["once", "一次"],
  ["{#batch} x bytes(T = {#tokens}), the sum over all layers", "{batch} x bytes(T = {tokens})，对所有层求和"],
  ["the largest T with {#batch} x bytes(T) <= room - weights", "满足 {batch} x bytes(T) <= 空间 - 权重 的最大 T"],
  ["one layer, one more token", "一层，再多一个 token"],
  ["one layer, its window when full", "一层，窗口填满时"],
  ["one layer, once", "一层，一次"],
  ["the same sum with every vector in {=format}", "同一个和，每个向量都用 {format}"],
  ["one multiply-add is 2 FLOPs; products of queries and keys, and of weights and values", "一次乘加算 2 FLOPs；算 query 与 key 的乘积、权重与 value 的乘积"],
  ["bytes of the cache that one decode step reads", "解码一步要读的缓存字节数"],
  ["FLOPs of a decode step / bytes that it reads", "解码一步的 FLOPs / 它要读的字节数"],
  ["peak / bandwidth", "峰值 / 带宽"],
  ["batch x bytes that a decode step reads / bandwidth", "序列数 x 解码一步要读的字节数 / 带宽"],
  ["layers as transformers holds them, T = {#tokens}, bf16", "各层按 transformers 的存法，T = {tokens}，bf16"],
  ["{#count} parameters in {=format}", "{count} 个参数，{format}"],
  ["as given", "你给的"],
  ["layers {=list} ({#count} layers): {kind}, {what}", "第 {list} 层（共 {count} 层）：{kind}，{what}"],
  ["layers {layers}: {kind}, {what}", "第 {layers} 层：{kind}，{what}"],
  ["{=list} ({#count} layers)", "{list}（共 {count} 层）"],
  ["prefill, exact", "预填充，精确"],
  ["decode step", "解码一步"],
  ["decode step, absorbed", "解码一步，吸收式"],
  ["recurrence", "递推"],
  ["{#count} layers x 2 x {#heads} heads x ({=widths}) x {#pairs} pairs = {#total}", "{count} 层 x 2 x {heads} 头 x ({widths}) x {pairs} 对 = {total}"],
  ["{#count} layers x 2 x {#heads} heads x ({=widths}) x {#keys} keys = {#total}", "{count} 层 x 2 x {heads} 头 x ({widths}) x {keys} 个 key = {total}"],
  ["{#count} layers x ({steps}) a token = {#total}", "{count} 层 x ({steps})，每个 token = {total}"],
  ["{=one} (decay 1, read with the key 2, outer product 2, read with the query 2) + {=two} (convolution)", "{one}（衰减 1，用 key 读 2，外积 2，用 query 读 2）+ {two}（卷积）"],
  ["{=one} (decay 2, input 2, read 2) + {=two} (convolution)", "{one}（衰减 2，输入 2，读出 2）+ {two}（卷积）"],
  ["{=one} (decay 1, outer product 2, read 2) + {=two} (convolution)", "{one}（衰减 1，外积 2，读出 2）+ {two}（卷积）"],
  ["{=one} (decay 1, outer product 2, read 2)", "{one}（衰减 1，外积 2，读出 2）"],
  ["{=two} (convolution)", "{two}（卷积）"],
  ["{=sizes} in {=format} = {#bytes} B per token, at most {#most} tokens", "{sizes}，{format} = {bytes} B，每个 token，最多 {most} 个"],
  ["{=sizes} in {=format} = {#bytes} B per token that waits (T mod {#span})", "{sizes}，{format} = {bytes} B，每个等待的 token（T mod {span}）"],
  ["{=sizes} in {=format} = {#bytes} B per token", "{sizes}，{format} = {bytes} B，每个 token"],
  ["{=sizes} in {=format} = {#bytes} B per {#span} tokens", "{sizes}，{format} = {bytes} B，每 {span} 个 token"],
  ["{=sizes} in {=format} = {#bytes} B once, after {#span} tokens", "{sizes}，{format} = {bytes} B，{span} 个 token 之后一次"],
  ["{=sizes} in {=format} = {#bytes} B once", "{sizes}，{format} = {bytes} B，一次"],
];

/** @type {[string, string][]} */
const INPUTS = [
  ["sequences", "序列数"],
  ["parameters", "参数"],
  ["counted by layers", "逐层数出来的"],
  ["of these a token uses", "其中一个 token 用到的"],
  ["room", "空间"],
  ["weights", "权重"],
  ["cache at {#tokens}", "{tokens} 个 token 时的缓存"],
  ["the model's own limit", "模型自己的上限"],
  ["{#tokens} tokens", "{tokens} 个 token"],
  ["the config", "config"],
  ["peak", "峰值"],
  ["bandwidth", "带宽"],
  ["dense bf16", "稠密 bf16"],
  ["{#rate} TFLOP/s dense bf16", "{rate} TFLOP/s，稠密 bf16"],
  ["after prefill", "预填充之后"],
  ["one request", "一个请求"],
];

/** @type {[string, string][]} */
const SOURCES = [
  ["attnscope.plan.weights, from the config", "attnscope.plan.weights，由 config 得出"],
  ["NVIDIA Ada architecture white paper", "NVIDIA Ada 架构白皮书"],
  ["{=device} data sheet, SXM", "{device} 数据手册，SXM 版"],
  ["{=device} data sheet, B200", "{device} 数据手册，B200"],
  ["{=device} data sheet", "{device} 数据手册"],
  ["transformers {=version}, the cache tensors of one forward pass", "transformers {version}，跑一次前向之后的缓存张量"],
  ["built from this config on the meta device, one sequence, in bf16", "用这份 config 在 meta 设备上搭出来，一条序列，bf16"],
  ["cache in {format}, convolutions in {=plain}", "缓存用 {format}，卷积用 {plain}"],
  ["cache in {format}", "缓存用 {format}"],
  ["{=format} (one scale per tensor, kept with the weights: no byte per token)", "{format}（每个张量一个缩放系数，和权重放在一起，不按 token 占字节）"],
  ["{=format} (a 2-byte scale and a 2-byte zero point per 64 numbers)", "{format}（每 64 个数一个 2 字节的缩放系数和一个 2 字节的零点）"],
  ["one scale per tensor, kept with the weights: no byte per token", "每个张量一个缩放系数，和权重放在一起，不按 token 占字节"],
  ["a 2-byte scale and a 2-byte zero point per 64 numbers", "每 64 个数一个 2 字节的缩放系数和一个 2 字节的零点"],
  ["The rule was checked by weighing: the cache tensors of {#count} families of models are as planned.", "规则经称量核对：{count} 个模型家族的缓存张量都和规划的一样。"],
  ["The rule was checked by running: llama.cpp logs the same sizes of small files of {#count} architectures.", "规则经运行核对：用 {count} 种架构的小文件去跑，llama.cpp 日志里的大小与此相同。"],
  ["The rule was read from the source; {=engine} was not run.", "规则读自源码；没有运行过 {engine}。"],
];

/** @type {[string, string][]} */
const ENGINES = [
  ["vLLM at commit {=commit} (v1 cache manager)", "vLLM，提交 {commit}（v1 缓存管理器）"],
  ["full layers hold T tokens, sliding layers min(T, W - 1), states once; {#peak} B of storage right after one prefill of all tokens", "全注意力层存 T 个 token，滑动层存 min(T, W - 1) 个，状态存一次；一次预填充完所有 token 时占 {peak} B"],
  ["full layers hold T tokens, sliding layers min(T, W - 1), states once", "全注意力层存 T 个 token，滑动层存 min(T, W - 1) 个，状态存一次"],
  ["full layers hold T tokens in {=format} after a prefill; then up to {#most} more wait unquantised", "预填充之后，全注意力层用 {format} 存 T 个 token；此后最多再有 {most} 个不量化地等着"],
  ["full layers hold T tokens in {=format}", "全注意力层用 {format} 存 T 个 token"],
  ["its QuantizedCache takes full layers alone, not {*kinds}", "它的 QuantizedCache 只接受全注意力层，不接受：{kinds}"],
  ["its cache is in the activations' {=plain}, not in {=format}", "它的缓存用激活的格式 {plain}，不用 {format}"],
  ["{=version} has no model type {=kind} of its own", "{version} 自己没有 {kind} 这种模型"],
  ["{=engine} keeps no cache in {=format}", "{engine} 不用 {format} 存缓存"],
  ["{=engine} keeps no MLA cache in int8", "{engine} 不用 int8 存 MLA 的缓存"],
  ["{=engine}'s layout of {*kinds} layers is not described here", "{engine} 怎样存这种层，这里没有写：{kinds}"],
  ["whether {=engine} reads the window of {=kind} is not described here", "{engine} 读不读 {kind} 的窗口，这里没有写"],
  ["a row of {#count} numbers is no multiple of {#block}", "一行 {count} 个数，不是 {block} 的倍数"],
  ["no layer keeps anything", "没有一层要存东西"],
  ["states beside attention of several widths", "状态旁边有几种宽度的注意力"],
  ["pages of several sizes, none a multiple of the others", "有几种大小的页，谁也不是谁的倍数"],
  ["{#count} groups of {kind} x {#blocks} blocks", "{count} 组{kind} x {blocks} 块"],
  ["{#count} group of {kind} x {#blocks} blocks", "{count} 组{kind} x {blocks} 块"],
  ["{#blocks} blocks of {#block} tokens x {#page} B; at most {#most} tokens batched", "{blocks} 块，每块 {block} 个 token x {page} B；一批最多 {most} 个 token"],
  ["{#blocks} blocks of {#block} tokens x {#page} B", "{blocks} 块，每块 {block} 个 token x {page} B"],
  ["{#blocks} x {#page} B of states", "{blocks} x {page} B 的状态"],
  ["{#tokens} tokens and a page of {#page} for padding x {#cell} B; {;rest}", "{tokens} 个 token，外加一页 {page} 个用来补齐，x {cell} B；{rest}"],
  ["{#tokens} tokens and a page of {#page} for padding x {#cell} B", "{tokens} 个 token，外加一页 {page} 个用来补齐，x {cell} B"],
  ["sliding {#cell} B a token, ratio {#ratio}", "滑动层每个 token {cell} B，比例 {ratio}"],
  ["sliding {#cell} B a token", "滑动层每个 token {cell} B"],
  ["{#slots} slots x {#state} B of states", "{slots} 个槽 x {state} B 的状态"],
  ["fp8 with scales, {#size} B a token and layer", "fp8 带缩放系数，每个 token 每层 {size} B"],
  ["{#cells} cells x {#count} streams; {;rest}", "{cells} 格 x {count} 路；{rest}"],
  ["{#cells} cells x {#count} stream; {;rest}", "{cells} 格 x {count} 路；{rest}"],
  ["{#cells} cells x {#count} streams", "{cells} 格 x {count} 路"],
  ["{#cells} cells x {#count} stream", "{cells} 格 x {count} 路"],
  ["sliding {#cells} cells", "滑动层 {cells} 格"],
  ["float32 states of {#slots} slots", "{slots} 个槽的 float32 状态"],
  ["float32 states of {#slots} slot", "{slots} 个槽的 float32 状态"],
];

/** @type {[string, string][]} */
const NOTES = [
  ["{#tokens} tokens are more than the model's own limit of {#limit} positions: it learned a vector for each of these and has none beyond, so it cannot run there", "{tokens} 个 token 超过了模型自己的上限 {limit} 个位置：它给每个位置学了一个向量，再往后就没有了，所以跑不了"],
  ["{#tokens} tokens are more than the model's own limit of {#limit} positions", "{tokens} 个 token 超过了模型自己的上限 {limit} 个位置"],
  ["GQA-{#count} is no scheme of this model: {=same} does not divide its query heads", "这个模型不能用 GQA-{count}：{count} 除不尽它的 query 头数"],
  ["weights: {why}", "权重：{why}"],
  ["quantization_config says {=how}, and no files; --dtype bf16 counts them in bf16", "quantization_config 写着 {how}，又没有权重文件；在“权重和激活的格式”里选 bf16，就按 bf16 来数"],
  ["{=kind} is not counted, and no files", "{kind} 的参数这里不会数，又没有权重文件"],
  ["The weights of {=model} are not known ({why}); give --weights BYTES, or --weights 0.", "不知道 {model} 的权重有多大（{why}）；请在“权重”一栏填字节数，或填 0。"],
  ["num_key_value_heads is {gone}; there are as many as query heads", "num_key_value_heads {gone}；按与 query 头一样多来算"],
  ["head_dim is null; hidden_size / num_attention_heads = {#width} is taken", "head_dim 为 null；按 hidden_size / num_attention_heads = {width} 来算"],
  ["{=field} is absent; {=value} is the default of transformers for {=kind}", "没有写 {field}；transformers 给 {kind} 的默认值是 {value}"],
  ["no dtype in the config; bf16 is taken", "config 里没有 dtype；按 bf16 来算"],
  ["num_nextn_predict_layers = {#count}: layers for drafting, counted by an engine that drafts with them and not here", "num_nextn_predict_layers = {count}：这是打草稿用的层，用它们打草稿的引擎才算，这里不算"],
  ["the published layout (288 + 68 bytes an entry) is of the entries; the window's raw keys are counted in the cache's plain format", "公布的存法（每个条目 288 + 68 字节）只管条目；窗口里原样的 key 按缓存的普通格式来算"],
  ["model_type {=kind} is unknown; every layer is taken as full attention", "不认识 model_type {kind}；把每一层都当作全注意力"],
  ["absent", "没有写"],
  ["null", "为 null"],
];

/** 带冒号的整句，要排在“名字：句子”前面。 @type {[string, string][]} */
const PAGES = [
  ["{#size} layers a group, page {#page} B (block {#block}): {*groups}; at most {#most} tokens batched", "每组 {size} 层，一页 {page} B（一块 {block} 个 token）：{groups}；一批最多 {most} 个 token"],
  ["{#size} layers a group, page {#page} B (block {#block}): {*groups}", "每组 {size} 层，一页 {page} B（一块 {block} 个 token）：{groups}"],
];

/** Everything, in the order in which patterns are tried. @type {readonly (readonly [string, string])[]} */
export const PLAN = [
  ...KINDS, ...MEANINGS, ...STORES, ...SCHEMES, ...SOURCES, ...FORMULAS, ...NOTES, ...PAGES, ...SENTENCES, ...NAMED,
  ...ENGINES, ...INPUTS, ...FIELDS,
];

/** Phrases within lists of the config's fields, which stay as they are otherwise. @type {readonly (readonly [string, string])[]} */
export const PHRASES = [[" (library's default)", "（库的默认值）"]];
