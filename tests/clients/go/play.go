// Play plays one episode with the standard library alone. Its types are those that it needs of /schema.json.
//
//	play URL ENVIRONMENT [KEY]
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode/utf8"
)

type split struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	MimeType string `json:"mimeType"`
}

type createSession struct {
	EnvName string `json:"env_name"`
	Split   string `json:"split"`
	Index   int    `json:"index"`
}

type toolCall struct {
	Name   string         `json:"name"`
	Input  map[string]any `json:"input"`
	TaskID string         `json:"task_id,omitempty"`
}

type toolOutput struct {
	Blocks   []block        `json:"blocks"`
	Metadata map[string]any `json:"metadata"`
	Reward   *float64       `json:"reward"`
	Finished bool           `json:"finished"`
}

// runToolOutput is RunToolSuccess or RunToolError, as OK says.
type runToolOutput struct {
	OK     bool       `json:"ok"`
	Output toolOutput `json:"output"`
	Error  string     `json:"error"`
	Reason *string    `json:"reason"`
}

// client sends the requests of one session.
type client struct {
	url, environment, key, sid string
}

// send makes one request and returns the body of its response, or the refusal as an error.
func (c *client) send(method, path string, body any, headers ...string) ([]byte, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, c.url+path, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	headers = append(headers, "X-Session-ID", c.sid, "X-API-Key", c.key)
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			request.Header.Set(headers[i], headers[i+1])
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}

// read makes one request and decodes its answer into target.
func (c *client) read(target any, method, path string, body any, headers ...string) error {
	answer, err := c.send(method, path, body, headers...)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, target)
}

// path returns a path of the environment.
func (c *client) path(word string) string {
	return "/" + url.PathEscape(c.environment) + "/" + word
}

// call calls a tool and returns its result.
func (c *client) call(name string, input map[string]any) (result runToolOutput, err error) {
	stream, err := c.send("POST", c.path("call"), toolCall{Name: name, Input: input})
	if err != nil {
		return result, err
	}
	text, err := joined(stream)
	if err != nil {
		return result, err
	}
	return result, json.Unmarshal([]byte(text), &result)
}

// joined returns the JSON text that the events of a whole stream contain.
func joined(stream []byte) (string, error) {
	var text, data strings.Builder
	event := ""
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			event = line[len("event: "):]
			data.Reset()
		case strings.HasPrefix(line, "data: "):
			data.WriteString(line[len("data: "):])
		case line == "" && event == "error":
			return "", errors.New(data.String())
		case line == "" && (event == "chunk" || event == "end"):
			text.WriteString(data.String())
			event = ""
		}
	}
	return text.String(), lines.Err()
}

// play plays the last task of the first split, and returns what the test compares.
func (c *client) play() (map[string]any, error) {
	var created struct {
		SID string `json:"sid"`
	}
	var splits []split
	var count struct {
		NumTasks int `json:"num_tasks"`
	}
	var prompt []block
	var listed struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := c.read(&created, "POST", "/create_session", nil); err != nil {
		return nil, err
	}
	c.sid = created.SID
	if err := c.read(&splits, "GET", c.path("splits"), nil); err != nil {
		return nil, err
	}
	if err := c.read(&count, "POST", c.path("num_tasks"), map[string]any{"split": splits[0].Name}); err != nil {
		return nil, err
	}
	task := createSession{c.environment, splits[0].Name, count.NumTasks - 1}
	if _, err := c.send("POST", "/create", task, "X-Run", "go"); err != nil {
		return nil, err
	}
	if err := c.read(&prompt, "GET", c.path("prompt"), nil); err != nil {
		return nil, err
	}
	if err := c.read(&listed, "GET", c.path("task_tools"), nil); err != nil {
		return nil, err
	}
	refused, err := c.call("echo", map[string]any{"text": 1})
	if err != nil {
		return nil, err
	}
	said, err := c.call("echo", map[string]any{"text": strings.Repeat("ä ", 5000)})
	if err != nil {
		return nil, err
	}
	finished, err := c.call("finish", map[string]any{})
	if err != nil {
		return nil, err
	}
	texts, tools, length := []string{}, []string{}, 0
	for _, one := range prompt {
		texts = append(texts, one.Text+one.MimeType)
	}
	for _, one := range listed.Tools {
		tools = append(tools, one.Name)
	}
	for _, one := range said.Output.Blocks {
		length += utf8.RuneCountInString(one.Text)
	}
	played := map[string]any{
		"sid": c.sid, "prompt": texts, "tools": tools, "refusal": refused.Reason, "length": length,
		"rewards": []*float64{said.Output.Reward, finished.Output.Reward}, "finished": finished.Output.Finished,
	}
	_, err = c.send("POST", "/delete", nil)
	return played, err
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: play URL ENVIRONMENT [KEY]")
	}
	player := client{url: os.Args[1], environment: os.Args[2]}
	if len(os.Args) > 3 {
		player.key = os.Args[3]
	}
	played, err := player.play()
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(played); err != nil {
		log.Fatal(err)
	}
}
